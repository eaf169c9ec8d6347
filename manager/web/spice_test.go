package web

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/wait"
)

// connection opens a connection like a viewer with the server as its proxy.
func (p *play) connection(ticket string) (conn net.Conn, code int) {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.http.Listener.Addr().String())
	require.NoError(p.t, err)
	p.t.Cleanup(func() { conn.Close() })
	require.NoError(p.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "CONNECT "+ticket+":5900 HTTP/1.0\r\n\r\n")
	require.NoError(p.t, err)
	var minor rune
	head := make([]byte, len("HTTP/1.1 200"))
	_, err = io.ReadFull(conn, head)
	require.NoError(p.t, err)
	_, err = fmt.Sscanf(string(head), "HTTP/1.%c %d", &minor, &code)
	require.NoError(p.t, err, "%s", head)
	if code == 200 {
		_, err = io.CopyN(io.Discard, conn, int64(len(" Connection established\r\n\r\n")))
		require.NoError(p.t, err)
	}
	return conn, code
}

// file downloads the connection file for a viewer, and returns its ticket.
func (p *play) file(query string, header ...string) (ticket string) {
	p.t.Helper()
	answer, text := p.call("GET", "/vms/web/viewer.vv"+query, "", header...)
	require.Equal(p.t, 200, answer.StatusCode, text)
	require.Equal(p.t, "application/x-virt-viewer", answer.Header.Get("Content-Type"))
	require.Equal(p.t, `attachment; filename="web.vv"`, answer.Header.Get("Content-Disposition"))
	found := regexp.MustCompile(`^\[virt-viewer\]\ntype=spice\nhost=([a-z2-7]{26})\nport=5900\nproxy=` +
		regexp.QuoteMeta(p.http.URL) + `\ntitle=web\ndelete-this-file=1\n$`).FindStringSubmatch(text)
	require.NotNil(p.t, found, text)
	return found[1]
}

// clock gives the server a clock that only the test advances.
func (p *play) clock() (advance func(time.Duration)) {
	var passed atomic.Int64
	begin := time.Now()
	p.server.opts.Now = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	return func(d time.Duration) { passed.Add(int64(d)) }
}

// A viewer opens several connections with its ticket. They lead only to the VM's screen, as the user of the page.
func TestViewer(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	advance := p.clock()
	ticket := p.file("?mode=take")
	var ends []net.Conn
	for range 2 {
		conn, code := p.connection(ticket)
		require.Equal(t, 200, code)
		far := <-p.conns
		_, err := io.WriteString(conn, "ping")
		require.NoError(t, err)
		heard := make([]byte, 4)
		_, err = io.ReadFull(far, heard)
		require.NoError(t, err)
		require.Equal(t, "ping", string(heard))
		_, err = io.WriteString(far, "pong")
		require.NoError(t, err)
		_, err = io.ReadFull(conn, heard)
		require.NoError(t, err)
		require.Equal(t, "pong", string(heard))
		ends = append(ends, conn, far)
	}
	require.Equal(t, []string{"admin spice web take 26", "admin spice web take 26"}, p.done)
	require.EqualValues(t, 2, p.server.Figures().Screens)
	advance(time.Hour)
	_, code := p.connection(ticket)
	require.Equal(t, 200, code, "a viewer that is connected may open another channel")
	for _, conn := range append(ends, <-p.conns) {
		require.NoError(t, conn.Close())
	}
	wait.Until(t, func() bool {
		p.server.tickets.mu.Lock()
		defer p.server.tickets.mu.Unlock()
		return p.server.tickets.known[ticket].channels == 0
	})
	require.Zero(t, p.server.Figures().Screens)
	advance(ticketRest)
	_, code = p.connection(ticket)
	require.Equal(t, 403, code, "the viewer has ended")

	for _, other := range []string{"example.com", "127.0.0.1", "[::1]", strings.Repeat("a", 26), ""} {
		_, code := p.connection(other)
		require.Equal(t, 403, code, "%q is no ticket", other)
	}
}

func TestViewerTooLate(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	advance := p.clock()
	ticket := p.file("")
	advance(ticketPatience)
	_, code := p.connection(ticket)
	require.Equal(t, 403, code)
	p.file("")
	require.Len(t, p.server.tickets.known, 1, "the old one is forgotten")
}

// The connection file, each connection, and its continuation require permission.
func TestViewerNeedsPermission(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running), sample("off", fleet.Stopped))
	const user = "Test-User"
	answer, _ := p.call("GET", "/vms/web/viewer.vv", "", user, "eve")
	require.Contains(t, []int{403, 404}, answer.StatusCode)
	answer, _ = p.call("GET", "/vms/off/viewer.vv", "")
	require.Equal(t, 409, answer.StatusCode)
	answer, _ = p.call("GET", "/vms/web/viewer.vv?mode=watch", "")
	require.Equal(t, 400, answer.StatusCode)

	p.allow("eve", "accessConsole")
	answer, _ = p.call("GET", "/vms/web/viewer.vv?mode=take", "", user, "eve")
	require.Equal(t, 403, answer.StatusCode)
	ticket := p.file("", user, "eve")
	p.allow("eve")
	_, code := p.connection(ticket)
	require.Equal(t, 403, code)
	p.allow("eve", "accessConsole")
	conn, code := p.connection(ticket)
	require.Equal(t, 200, code)
	far := <-p.conns
	defer far.Close()
	p.allow("eve")
	p.Put(sample("web", fleet.Running)) // a change triggers a check
	_, err := io.Copy(io.Discard, conn)
	require.NoError(t, err, "the connection ends")

	p.allow("eve", "accessConsole", "takeConsole")
	ticket = p.file("?mode=take", user, "eve")
	p.allow("eve", "accessConsole")
	_, code = p.connection(ticket)
	require.Equal(t, 403, code, "it was for the permission to take it")

	ticket = p.file("", user, "eve")
	conn, code = p.connection(ticket)
	require.Equal(t, 200, code)
	defer (<-p.conns).Close()
	close(p.ended) // the session
	_, err = io.Copy(io.Discard, conn)
	require.NoError(t, err)
	_, code = p.connection(ticket)
	require.Equal(t, 403, code)
}
