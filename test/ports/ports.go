// Package ports gives tests TCP ports for servers that can't choose a free port themselves, such as QEMU's.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernel takes ports for clients, and for servers without a port, from 32768 on.
const lowest, number = 20000, 12000

// Reserve returns a port of 127.0.0.1 at which nothing listens. Until the test has ended, it is not reserved again, not
// even by another process: each reserved port has an abstract unix socket.
func Reserve(t testing.TB) int {
	t.Helper()
	for range number {
		port := lowest + rand.IntN(number)
		reservation, err := net.Listen("unix", "@vmop-test-port-"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			_ = reservation.Close() // another program uses the port
			continue
		}
		require.NoError(t, listener.Close())
		t.Cleanup(func() { _ = reservation.Close() })
		return port
	}
	require.FailNow(t, "all ports are reserved")
	return 0
}
