package keepalive_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/internal/keepalive"
	"vmop/test/deaf"
)

// short is the shortest limit that TCP's clock of seconds allows.
const short = keepalive.Limit(3 * time.Second)

// pair returns both ends of a connection. The first end has the limit.
type pair func(t *testing.T) (ours, theirs net.Conn)

func accepted(t *testing.T) (ours, theirs net.Conn) {
	l, err := short.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	theirs, err = (&net.Dialer{KeepAlive: -1}).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	ours, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}

func dialed(t *testing.T) (ours, theirs net.Conn) {
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	ours, err = short.Dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	theirs, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// A connection ends when its peer has vanished, with and without data in flight. A live connection stays, even after a
// longer idle time.
func TestVanishedEnds(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]pair{"accepted": accepted, "dialed": dialed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			living, other := connect(t)
			idle, gone := connect(t)
			sending, goneToo := connect(t)
			deaf.Make(t, gone)
			deaf.Make(t, goneToo)
			_, err := sending.Write([]byte("on its way"))
			require.NoError(t, err)
			for _, conn := range []net.Conn{idle, sending} {
				_, err := conn.Read(make([]byte, 1))
				require.ErrorIs(t, err, unix.ETIMEDOUT)
			}
			go func() { _, _ = other.Write([]byte("still here")) }()
			heard := make([]byte, len("still here"))
			_, err = io.ReadFull(living, heard)
			require.NoError(t, err)
			require.Equal(t, "still here", string(heard))
		})
	}
}

// The kernel uses the configured limit.
func TestLimits(t *testing.T) {
	t.Parallel()
	l, err := keepalive.Minute.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ours, err := keepalive.Minute.Dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer ours.Close()
	theirs, err := l.Accept()
	require.NoError(t, err)
	defer theirs.Close()
	require.Equal(t, time.Minute, deaf.Limit(t, ours))
	require.Equal(t, time.Minute, deaf.Limit(t, theirs))
	_, err = keepalive.Minute.Listen(t.Context(), "nowhere")
	require.Error(t, err)
}
