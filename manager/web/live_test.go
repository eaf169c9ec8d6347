package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// events reads a stream of server-sent events.
type events struct {
	t  testing.TB
	in *bufio.Scanner
	// body is the source of in.
	body io.Reader
}

func (p *play) follow(path string, header ...string) *events {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), "GET", p.http.URL+path, nil)
	require.NoError(p.t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(p.t, "text/event-stream", answer.Header.Get("Content-Type"))
	require.Empty(p.t, answer.Header.Get("Content-Encoding"), "it must not wait to be compressed")
	in := bufio.NewScanner(answer.Body)
	in.Buffer(nil, 1<<20)
	return &events{p.t, in, answer.Body}
}

// next returns the next event.
func (e *events) next() (name, data string) {
	e.t.Helper()
	for e.in.Scan() {
		line := e.in.Text()
		if after, is := strings.CutPrefix(line, "event: "); is {
			name = after
		}
		if after, is := strings.CutPrefix(line, "data: "); is {
			data += after + "\n"
		}
		if line == "" && name != "" {
			return name, data
		}
	}
	require.NoError(e.t, e.in.Err())
	e.t.Fatal("the stream has ended")
	return "", ""
}

// The stream of the list begins with all rows, and continues with changed rows. When a VM comes or goes, all rows are
// sent in order.
func TestListIsLive(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("a", fleet.Stopped), sample("b", fleet.Stopped))
	e := p.follow("/live?")
	name, data := e.next()
	require.Equal(t, "parts", name)
	require.Contains(t, data, `<tbody id="rows">`)
	require.Contains(t, data, `id="totals"`)

	p.Put(sample("b", fleet.Running))
	_, data = e.next()
	require.Contains(t, data, `<tr id="vm-b">`)
	require.NotContains(t, data, `id="vm-a"`)
	require.NotContains(t, data, `<tbody`)
	require.Contains(t, data, `id="totals"`, "one more is running")

	p.Put(sample("aa", fleet.Stopped))
	_, data = e.next()
	require.Contains(t, data, `<tbody id="rows">`)
	require.Less(t, strings.Index(data, "vm-aa"), strings.Index(data, "vm-b"))
	p.Remove("a")
	_, data = e.next()
	require.NotContains(t, data, `id="vm-a"`)
}

// The page without VMs is reloaded when the first VM appears.
func TestFirstVM(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	_, text := p.call("GET", "/", "")
	require.Contains(t, text, `data-live="/live?&amp;empty=1"`)
	e := p.follow("/live?&empty=1")
	e.next()
	p.Put(sample("a", fleet.Stopped))
	name, _ := e.next()
	require.Equal(t, "gone", name)
}

// The rows in the stream are the same as on the page.
func TestRowsOfStreamAndPage(t *testing.T) {
	t.Parallel()
	p := newPlay(t, oneOfEach()...)
	_, page := p.call("GET", "/", "")
	_, data := p.follow("/live?").next()
	from, to := strings.Index(data, "<tbody"), strings.Index(data, "</tbody>")
	require.Contains(t, page, data[from:to])
}

// A VM's page receives the changes of the VM, and is reloaded when the VM is gone.
func TestVMIsLive(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	e, w := p.follow("/live?vm=web"), p.follow("/live?vm=web&window=screen")
	e.next()
	w.next()
	changed := *sample("web", fleet.Running)
	changed.Message, changed.CPUs.Now = "", 3
	p.Put(&changed)
	_, data := e.next()
	require.Contains(t, data, `id="vmsize"`)
	require.NotContains(t, data, `id="vmhistory"`)
	p.Put(sample("web", fleet.Paused))
	_, data = w.next()
	require.Contains(t, data, `id="windowstate"`)
	require.Contains(t, data, "Paused")
	p.Remove("web")
	for {
		name, _ := e.next()
		if name == "gone" {
			break
		}
	}
}

// A stream ends with the session.
func TestLogOutEndsStreams(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	e := p.follow("/live?vm=web")
	e.next()
	socket, far := p.socket("/vms/web/screen/stream?mode=type")
	defer far.Close()
	close(p.ended)
	name, _ := e.next()
	require.Equal(t, "gone", name)
	require.Equal(t, streamRefused, closed(t, socket))
}

// socket opens a WebSocket to a VM, and returns it with the VM's end.
func (p *play) socket(path string, header ...string) (*websocket.Conn, net.Conn) {
	p.t.Helper()
	opts := &websocket.DialOptions{HTTPHeader: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		opts.HTTPHeader.Set(header[i], header[i+1])
	}
	socket, _, err := websocket.Dial(p.t.Context(), "ws"+strings.TrimPrefix(p.http.URL, "http")+path, opts)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = socket.CloseNow() })
	select {
	case far := <-p.conns:
		p.t.Cleanup(func() { _ = far.Close() })
		return socket, far
	case <-p.t.Context().Done():
		return socket, nil
	}
}

// closed returns the close code of a WebSocket.
func closed(t *testing.T, socket *websocket.Conn) websocket.StatusCode {
	t.Helper()
	for {
		_, _, err := socket.Read(t.Context())
		if err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// Data flows in both directions, and each end can close the stream.
func TestStreams(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, path := range []string{"/vms/web/screen/stream?mode=type", "/vms/web/console/stream?mode=type"} {
		socket, far := p.socket(path)
		go func() { _, _ = far.Write([]byte("RFB 003.008\n")) }()
		_, data, err := socket.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, "RFB 003.008\n", string(data))
		go func() { _ = socket.Write(t.Context(), websocket.MessageBinary, []byte("key")) }()
		got := make([]byte, 3)
		_, err = far.Read(got)
		require.NoError(t, err)
		require.Equal(t, "key", string(got))
		require.EqualValues(t, 1, p.touched.Swap(0), "typing keeps the session")
		require.NoError(t, far.Close())
		require.Equal(t, streamEnded, closed(t, socket), path)

		socket, far = p.socket(path)
		require.NoError(t, socket.CloseNow())
		_, err = far.Read(got)
		require.Error(t, err)
	}
}

// A stream requires its permission and a same-origin page, and ends when the permission does.
func TestStreamsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	dial := func(path string, header http.Header) int {
		_, answer, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.http.URL, "http")+path,
			&websocket.DialOptions{HTTPHeader: header})
		require.Error(t, err)
		return answer.StatusCode
	}
	require.Equal(t, 403, dial("/vms/web/screen/stream?mode=type", http.Header{"Origin": {"http://evil.example"}}))
	require.Equal(t, 404, dial("/vms/web/screen/stream?mode=type", http.Header{"Test-User": {"guest"}}))
	p.allow("guest", "start")
	require.Equal(t, 403, dial("/vms/web/screen/stream?mode=type", http.Header{"Test-User": {"guest"}}))
	require.Equal(t, 400, dial("/vms/web/console/stream?mode=shout", nil))
	require.Equal(t, 404, dial("/vms/stranger/console/stream?mode=type", nil))

	p.allow("guest", "accessConsole")
	require.Equal(t, 403, dial("/vms/web/screen/stream?mode=take", http.Header{"Test-User": {"guest"}}))
	socket, _ := p.socket("/vms/web/screen/stream?mode=type", "Test-User", "guest")
	p.allow("guest", "start")
	p.Put(sample("web", fleet.Running)) // any change
	require.Equal(t, streamRefused, closed(t, socket))
}

// If another client has the keyboard, the script learns that it may watch.
func TestOccupiedConsole(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for err, want := range map[error]websocket.StatusCode{
		fleet.ErrOccupied: streamOccupied, fleet.Refusal("the VM has no serial console " + strings.Repeat("x",
			200)): streamEnded,
	} {
		p.fails = err
		socket, _, e := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.http.URL,
			"http")+"/vms/web/console/stream?mode=type", nil)
		require.NoError(t, e)
		_, _, e = socket.Read(t.Context())
		require.Equal(t, want, websocket.CloseStatus(e))
	}
}

// A visitor who reads nothing doesn't delay others, and is disconnected when the stream ends.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	slow, far := p.socket("/vms/web/screen/stream?mode=type")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := far.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}()
	other, far2 := p.socket("/vms/web/screen/stream?mode=type")
	go func() { _, _ = far2.Write([]byte("quick")) }()
	_, data, err := other.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "quick", string(data))
	require.NoError(t, slow.CloseNow())
	<-ended
}
