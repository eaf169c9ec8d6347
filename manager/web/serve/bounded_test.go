package serve

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/deaf"
)

// The connection of a vanished browser is closed within a minute.
func TestConnectionsOfVanishedBrowsers(t *testing.T) {
	t.Parallel()
	listener, err := listenForBrowsers(t.Context(), 0, func(string) bool { return false })
	require.NoError(t, err)
	defer listener.Close()
	browser, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer browser.Close()
	accepted, err := listener.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	require.Equal(t, time.Minute, deaf.Limit(t, accepted.(*counted).Conn))
}

// One client can't use up all connections. The limits apply per address, and to all connections, including connections
// from proxies. Closing a connection frees its slot.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const proxy = "127.0.0.9"
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &bounded{Listener: inner, open: map[netip.Addr]int{}, exempt: func(address string) bool {
		host, _, _ := net.SplitHostPort(address)
		return host == proxy
	}}
	ends := make(chan net.Conn, mostOpen)
	go func() {
		defer close(ends)
		for {
			conn, err := b.Accept()
			if err != nil {
				return
			}
			ends <- conn
		}
	}()
	t.Cleanup(func() { _ = inner.Close() })
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(t.Context(), "tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	var accepted []net.Conn
	fill := func(from string, count int) {
		for range count {
			dial(from)
			accepted = append(accepted, <-ends)
		}
	}
	refused := func(from string) {
		_, err := dial(from).Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, from)
	}
	fill("127.0.0.2", mostOpenOf)
	refused("127.0.0.2")
	fill("127.0.0.3", 1)
	require.NoError(t, accepted[0].Close())
	require.Error(t, accepted[0].Close(), "it counts once")
	fill("127.0.0.2", 1)
	refused("127.0.0.2")

	fill(proxy, mostOpen-mostOpenOf-1)
	refused(proxy)
	refused("127.0.0.3")
	for _, conn := range accepted {
		_ = conn.Close()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Zero(t, b.all)
	require.Empty(t, b.open)
}
