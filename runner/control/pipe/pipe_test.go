package pipe_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control/pipe"
)

// ends returns both ends of a pipe over a process's standard streams. gone closes the standard input of the process,
// like Kubernetes after its user has disconnected.
func ends(t *testing.T) (user, process *pipe.Conn, gone func()) {
	t.Helper()
	inside, stdin := io.Pipe()
	stdout, outside := io.Pipe()
	user = pipe.New(stdout, stdin, func() error { return stdin.Close() })
	process = pipe.New(inside, outside, nil)
	t.Cleanup(func() { _, _ = stdin.Close(), stdout.Close() })
	return user, process, func() { _ = stdin.Close() }
}

// server returns a connection and its other end.
func server(t *testing.T) (conn net.Conn, other *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = conn.Close(), accepted.Close() })
	return conn, accepted.(*net.TCPConn)
}

// Data arrives even after the other direction has ended.
func TestBothDirectionsEndByThemselves(t *testing.T) {
	t.Parallel()
	user, process, _ := ends(t)
	conn, other := server(t)
	spliced := make(chan struct{})
	go func() { defer close(spliced); pipe.Splice(process, conn) }()

	request := bytes.Repeat([]byte("request "), 10_000)
	go func() {
		_, _ = user.Write(request)
		_ = user.CloseWrite()
	}()
	got, err := io.ReadAll(other)
	require.NoError(t, err)
	require.Equal(t, request, got)
	answer := bytes.Repeat([]byte("answer "), 10_000)
	go func() {
		_, _ = other.Write(answer)
		_ = other.Close()
	}()
	got, err = io.ReadAll(user)
	require.NoError(t, err)
	require.Equal(t, answer, got)
	<-spliced
	_, err = user.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
}

// The connection ends when its user disconnects, even with unsent data.
func TestTheConnectionEndsWithItsUser(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]bool{"sending": true, "only reading": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user, process, gone := ends(t)
			conn, other := server(t)
			spliced := make(chan struct{})
			go func() { defer close(spliced); pipe.Splice(process, conn) }()
			go func() { _, _ = io.Copy(io.Discard, user) }()
			if !more {
				require.NoError(t, user.CloseWrite())
			}
			gone()
			_, _ = io.Copy(io.Discard, other)
			<-spliced
		})
	}
}

// A stream that ends within a frame or between frames counts as a lost connection.
func TestAnEndThatIsGoneIsNoEnd(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\x00", "\x00\x02", "\x00\x02x"} {
		_, err := io.ReadAll(pipe.New(bytes.NewBufferString(text), io.Discard, nil))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", text)
	}
	got, err := io.ReadAll(pipe.New(bytes.NewBufferString("\x00\x02xy\x00\x01z\x00\x00"), io.Discard, nil))
	require.NoError(t, err)
	require.Equal(t, "xyz", string(got))
}
