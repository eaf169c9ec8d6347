package web

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vmop/internal/keepalive"
	"vmop/manager/web/fleet"
	"vmop/test/deaf"
	"vmop/test/wait"
)

// piped is a listener with in-memory connections, so that a test's clock applies to them.
type piped struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l *piped) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *piped) Close() error { close(l.ended); return nil }

func (*piped) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// A link is a client's connection that a test can cut. Data no longer arrives in either direction, and both ends stay
// unaware of it.
type link struct {
	net.Conn
	cut   chan struct{}
	takes bool // data to the client is dropped without limit

	closed chan struct{}
	end    func()
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	select {
	case <-l.cut:
	default:
		return n, err
	}
	for l.takes && err == nil {
		_, err = l.Conn.Read(p)
	}
	<-l.closed
	return 0, net.ErrClosed
}

// Close closes the client's end; the other end doesn't notice.
func (l *link) Close() error { l.end(); return nil }

func (l *link) Write(p []byte) (int, error) {
	select {
	case <-l.cut:
		return len(p), nil
	default:
		return l.Conn.Write(p)
	}
}

// The stream of a vanished client ends within a minute, whether it is idle or has more data than the connection can
// buffer. An idle, live stream stays.
func TestStreamsOfVanishedClients(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ vanishes, takes, busy bool }{
		"idle and alive":            {false, true, false},
		"vanished, idle":            {true, true, false},
		"vanished in a picture":     {true, false, true},
		"vanished, with a way free": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPlay(t, sample("web", fleet.Running))
				listener := &piped{make(chan net.Conn), make(chan struct{})}
				p.http.Close()
				server := &http.Server{Handler: p.server, ReadHeaderTimeout: time.Minute}
				go func() { _ = server.Serve(listener) }()
				defer server.Close()
				client := &link{cut: make(chan struct{}), takes: tt.takes, closed: make(chan struct{})}
				client.end = sync.OnceFunc(func() { close(client.closed) })
				defer func() { _ = client.Conn.Close() }()
				transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					client.Conn = near
					listener.conns <- far
					return client, nil
				}}
				socket, _, err := websocket.Dial(t.Context(), "ws://localhost/vms/web/screen/stream",
					&websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
				require.NoError(t, err)
				defer socket.CloseNow()
				far := <-p.conns
				defer far.Close()
				seen := websocket.NetConn(t.Context(), socket, websocket.MessageBinary)
				go func() { _, _ = io.Copy(io.Discard, seen) }()
				synctest.Wait()
				if !tt.vanishes {
					time.Sleep(time.Hour)
					require.EqualValues(t, 1, p.server.open.screens.Load())
					_, err := far.Write([]byte("still here"))
					require.NoError(t, err)
					return
				}
				began := time.Now()
				close(client.cut)
				if tt.busy {
					go func() { _, _ = io.Copy(far, endless{}) }()
				}
				_, err = far.Read(make([]byte, 1))
				require.Error(t, err, "the VM's end")
				require.LessOrEqual(t, time.Since(began), time.Minute)
				time.Sleep(4 * streamRest)
				require.Zero(t, p.server.open.screens.Load(), "the viewer's place is free")
			})
		})
	}
}

// endless is a picture that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { time.Sleep(streamRest / 100); return len(p), nil }

// Streams without pings (SPICE viewers and pages) end through TCP keepalive.
func TestVanishedViewersAndPages(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	listener, err := keepalive.Limit(3*time.Second).Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	p.http.Close()
	p.http = httptest.NewUnstartedServer(p.server)
	require.NoError(t, p.http.Listener.Close())
	p.http.Listener = listener
	p.http.Start()
	t.Cleanup(p.http.Close)
	viewer, code := p.connection(p.file(""))
	require.Equal(t, http.StatusOK, code)
	far := <-p.conns
	page, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = page.Close() })
	_, err = io.WriteString(page, "GET /live? HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	begin, err := bufio.NewReader(page).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK\r\n", begin)
	require.EqualValues(t, 1, p.server.open.pages.Load())

	deaf.Make(t, viewer)
	deaf.Make(t, page)
	_, err = far.Read(make([]byte, 1))
	require.Error(t, err)
	wait.Until(t, func() bool { return p.server.open.pages.Load() == 0 })
}
