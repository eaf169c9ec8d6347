package serve

import (
	"net"
	"net/netip"
	"sync"
)

// How many connections may be open: of all clients, and of an address that is not of a trusted
// proxy, behind which there may be many clients. A browser has six at most, or one by HTTP/2, and one
// for each screen and console.
const (
	mostOpen   = 2000
	mostOpenOf = 500
)

// bounded is a listener that closes connections at once that are too many.
type bounded struct {
	net.Listener
	exempt func(address string) bool // reports whether an address may have any number

	mu   sync.Mutex
	all  int
	open map[netip.Addr]int
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := b.admitConn(conn); c != nil {
			return c, nil
		}
		_ = conn.Close()
	}
}

// admitConn counts a connection; nil if it is one too many.
func (b *bounded) admitConn(conn net.Conn) net.Conn {
	remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // of TCP it has an address
	from, exempt := remote.Addr().Unmap(), b.exempt(remote.String())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= mostOpen || b.open[from] >= mostOpenOf && !exempt {
		return nil
	}
	b.all++
	b.open[from]++
	return &counted{Conn: conn, end: sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all--
		if b.open[from]--; b.open[from] == 0 {
			delete(b.open, from)
		}
	})}
}

// counted is a connection that counts as long as it is open.
type counted struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close()
}
