// Package deaf silences one end of a TCP connection, like a computer that loses its network. It also reads how the
// kernel would react at the other end.
package deaf

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Make makes an end deaf and therefore silent for the other end: a filter at its socket drops all packets before TCP,
// so that it acknowledges no data and answers no probe. Data that it sends still arrives.
func Make(t testing.TB, conn net.Conn) {
	t.Helper()
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	program := unix.SockFprog{Len: uint16(len(drop)), Filter: &drop[0]}
	controlSocket(t, conn, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
}

// Limit returns how long the kernel waits for acknowledgments from the other end of a connection. It requires that the
// kernel probes an idle end several times within that time.
func Limit(t testing.TB, conn net.Conn) time.Duration {
	t.Helper()
	option := func(level, name int) (value int) {
		controlSocket(t, conn, func(fd int) (err error) {
			value, err = unix.GetsockoptInt(fd, level, name)
			return err
		})
		return value
	}
	limit := time.Duration(option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)) * time.Millisecond
	require.NotZero(t, option(unix.SOL_SOCKET, unix.SO_KEEPALIVE), "an idle end is asked")
	idle := option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
	again := idle + 2*option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
	require.LessOrEqual(t, time.Duration(again)*time.Second, limit)
	return limit
}

func controlSocket(t testing.TB, conn net.Conn, do func(fd int) error) {
	t.Helper()
	if secured, is := conn.(interface{ NetConn() net.Conn }); is { // of crypto/tls
		conn = secured.NetConn()
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) { failed = do(int(fd)) }))
	require.NoError(t, failed)
}
