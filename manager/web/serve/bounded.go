package serve

import (
	"net"
	"net/netip"
	"sync"
)

// mostOpen is the maximum number of open connections. mostOpenOf is the maximum per client address, except for trusted
// proxies, which may have many clients behind them. A browser opens at most six connections (one with HTTP/2), plus one
// for each screen and console.
const (
	mostOpen   = 2000
	mostOpenOf = 500
)

// bounded is a listener that immediately closes excess connections.
type bounded struct {
	net.Listener
	exempt func(address string) bool // reports whether an address has no limit of its own

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

// admitConn counts a connection; it returns nil for an excess connection.
func (b *bounded) admitConn(conn net.Conn) net.Conn {
	remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // always valid for TCP
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

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close()
}
