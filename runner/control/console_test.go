package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/wait"
)

// open opens the console as a client.
func (s *served) open(t *testing.T, mode control.Mode) net.Conn {
	t.Helper()
	conn, err := s.client.Console(timeout(t), mode)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestManySeeTheConsoleAndOneTypes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guest := s.guest(t)
	send(t, guest, "before ")
	early := s.open(t, control.Watch)
	require.Equal(t, "before ", expect(t, early, "before "))
	writer := s.open(t, control.Type)
	require.Equal(t, "before ", expect(t, writer, "before "), "who comes late sees what was")
	send(t, guest, "login:")
	require.Equal(t, "login:", expect(t, early, "login:"))
	require.Equal(t, "login:", expect(t, writer, "login:"))
	send(t, early, "not heard")
	send(t, writer, "root\r")
	require.Equal(t, "root\r", expect(t, guest, "root\r"))
	require.NoError(t, guest.Close())
	for _, viewer := range []net.Conn{early, writer} {
		rest, err := io.ReadAll(viewer)
		if !errors.Is(err, syscall.ECONNRESET) { // the runner may not have read what was not heard
			require.NoError(t, err)
		}
		require.Empty(t, rest, "the console's end is the stream's")
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guest := s.guest(t)
	first := s.open(t, control.Type)
	me := fmt.Sprintf("uid %d pid %d", os.Getuid(), os.Getpid())
	_, err := s.client.Console(t.Context(), control.Type)
	var refused *control.AnswerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 423, refused.Code)
	require.EqualError(t, err, "the console is in use by "+me)
	second := s.open(t, control.Take)
	send(t, second, "mine")
	expect(t, guest, "mine")
	rest, err := io.ReadAll(first)
	require.NoError(t, err)
	require.Equal(t, "\r\n[console taken over by "+me+"]\r\n", string(rest))
	require.NoError(t, second.Close())
	wait.Until(t, func() bool { // the console is free once the server has noticed
		third, err := s.client.Console(t.Context(), control.Type)
		if err == nil {
			third.Close()
		}
		return err == nil
	})
}

// A guest that doesn't read blocks the client that types, but not a takeover.
func TestTakeOverFromSomebodyWhoWaitsForTheGuest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guest := s.guest(t)
	stuck, err := s.Console().Open(control.Type, control.Who{Client: "stuck"})
	require.NoError(t, err)
	defer stuck.Close()
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = stuck.Write(bytes.Repeat([]byte("x"), 64<<10))
		}
		ended <- err
	}()
	expect(t, guest, "x") // from now on the pipe fills
	other, err := s.Console().Open(control.Take, control.Who{Client: "other"})
	require.NoError(t, err)
	defer other.Close()
	require.Error(t, <-ended)
	_, err = stuck.Write([]byte("y"))
	require.ErrorIs(t, err, control.ErrNotWriter)
	var wrote sync.WaitGroup
	wrote.Go(func() { send(t, other, "mine") })
	expect(t, guest, "mine")
	wrote.Wait()
}

// A slow viewer does not delay others while the guest writes at full speed.
func TestASlowViewerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guest := s.guest(t)
	slow, err := s.Console().Open(control.Watch, control.Who{Client: "slow"})
	require.NoError(t, err)
	defer slow.Close()
	fast := s.open(t, control.Watch)
	const lines = 20_000
	go func() {
		for i := range lines {
			fmt.Fprintf(guest, "line %d\n", i)
		}
	}()
	expect(t, fast, fmt.Sprintf("line %d\n", lines-1)) // the server has read everything
	text := expect(t, slow, fmt.Sprintf("line %d\n", lines-1))
	var skipped, total int
	for i := range lines {
		total += len(fmt.Sprintf("line %d\n", i))
	}
	_, err = fmt.Sscanf(text, "\r\n[%d bytes skipped]\r\n", &skipped)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(text, "skipped]\r\n")
	require.Equal(t, total, skipped+len(rest), "what is missing is counted")
	require.LessOrEqual(t, len(rest), control.ScrollBack)
}

func TestScrollBackIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guest := s.guest(t)
	watcher := s.open(t, control.Watch)
	send(t, guest, strings.Repeat("x", 3*control.ScrollBack)+"end")
	expect(t, watcher, "end")
	late := expect(t, s.open(t, control.Watch), "end")
	require.Len(t, late, control.ScrollBack)
}

func TestViewersBeforeTheGuest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	viewer := s.open(t, control.Watch)
	send(t, s.guest(t), "SeaBIOS")
	expect(t, viewer, "SeaBIOS")
}

// A client that closes only its writing half is treated as disconnected.
func TestAClientThatIsHalfOpenHasLeft(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.guest(t)
	conn, err := net.Dial("unix", s.path())
	require.NoError(t, err)
	defer conn.Close()
	send(t, conn, "GET /v1/console HTTP/1.1\r\nHost: vm\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	expect(t, conn, "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	require.Len(t, s.tracker.Status().Consoles, 1)
	require.NoError(t, conn.(*net.UnixConn).CloseWrite())
	_, err = io.ReadAll(conn)
	require.NoError(t, err)
	wait.Until(t, func() bool { return len(s.tracker.Status().Consoles) == 0 })
}

func TestViewersAreInTheStatus(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.guest(t)
	viewer, err := s.Console().Open(control.Watch, control.Who{Client: "me"})
	require.NoError(t, err)
	got := s.tracker.Status().Consoles
	require.Len(t, got, 1)
	require.Equal(t, status.Console{Kind: status.Serial, Client: "me", Mode: "watch", Since: got[0].Since}, got[0])
	require.NoError(t, viewer.Close())
	require.NoError(t, viewer.Close(), "twice is once")
	require.Empty(t, s.tracker.Status().Consoles)
	_, err = viewer.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// Data sent together with the request is not lost.
func TestTheFirstBytesOfAStream(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guest := s.guest(t)
	conn, err := net.Dial("unix", s.path())
	require.NoError(t, err)
	defer conn.Close()
	send(t, conn, "GET /v1/console HTTP/1.1\r\nHost: vm\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nroot\r")
	require.Equal(t, "root\r", expect(t, guest, "\r"))
	send(t, guest, "Password:")
	expect(t, conn, "\r\n\r\nPassword:")
}

func TestVNCIsSpliced(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, err := net.Listen("unix", s.backend.plan.Socket("vnc"))
	require.NoError(t, err)
	defer l.Close()
	viewer, err := s.client.VNC(timeout(t))
	require.NoError(t, err)
	defer viewer.Close()
	screen, err := l.Accept()
	require.NoError(t, err)
	defer screen.Close()
	send(t, screen, "RFB 003.008\n")
	require.Equal(t, "RFB 003.008\n", expect(t, viewer, "\n"))
	send(t, viewer, "RFB 003.003\n")
	require.Equal(t, "RFB 003.003\n", expect(t, screen, "\n"))
	require.NoError(t, viewer.Close())
	_, err = io.ReadAll(screen)
	require.NoError(t, err, "when the viewer disconnects, so does the connection to QEMU")
}

// Closing the server ends all streams, even to clients that don't read.
func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guest := s.guest(t)
	viewer := s.open(t, control.Type)
	go func() { _, _ = guest.Write(bytes.Repeat([]byte("x"), 8<<20)) }()
	expect(t, viewer, "x")
	require.NoError(t, s.Close(t.Context()))
	_, err := s.client.Console(t.Context(), control.Watch)
	require.ErrorIs(t, err, control.ErrNotRunning)
}

// lateConn delivers the guest's output late, as on a busy computer.
type lateConn struct {
	net.Conn
	late chan struct{}
}

func (c *lateConn) Read(p []byte) (int, error) {
	<-c.late
	return c.Conn.Read(p)
}

// The end of the server does not cut off what the guest has printed last.
func TestTheLastOutputIsShown(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ours, theirs := pair(t)
	late := make(chan struct{})
	s.Console().Attach(&lateConn{theirs, late})
	viewer := s.open(t, control.Watch)
	send(t, ours, "the end")
	require.NoError(t, ours.Close())
	time.AfterFunc(20*time.Millisecond, func() { close(late) })
	ended := make(chan error, 1)
	go func() { ended <- s.Close(context.WithoutCancel(t.Context())) }()
	rest, err := io.ReadAll(viewer)
	require.NoError(t, err)
	require.Equal(t, "the end", string(rest))
	require.NoError(t, <-ended)
}
