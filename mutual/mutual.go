// Package mutual accepts TLS connections of clients that prove who they are, at a TCP port that
// strangers reach, too.
//
//	l, err := mutual.Listen(ctx, mutual.Options{Address: ":7443", TLS: config, Refusal: "…", Log: log})
//	conn, err := l.Accept() // its handshake is done
//
// A client has handshakeTime to show its certificate, and maxHandshakes may be about to; a
// further one displaces the oldest, so that strangers who say nothing don't keep clients out.
package mutual

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"vmop/alive"
	"vmop/runner/ratelimit"
)

// Bounds of what strangers may take.
const (
	handshakeTime = 10 * time.Second
	maxHandshakes = 64
)

// Options configure a Listener. All but Under are required.
type Options struct {
	// Address to listen at, HOST:PORT. An empty host is every address, and port 0 any that is free.
	Address string
	// TLS is what a server needs. Whether clients are asked for certificates it says, too.
	TLS *tls.Config
	// Under returns what TLS is to have in place of a connection.
	Under func(net.Conn) net.Conn
	// Refusal is the log line about a connection that is refused: whose it is not.
	Refusal string
	// Log gets who is refused, and why.
	Log *slog.Logger
}

// A Listener accepts connections whose handshakes are done.
type Listener struct {
	opts  Options
	tcp   net.Listener
	ready chan net.Conn
	end   context.CancelFunc
	ctx   context.Context // of the handshakes

	mu    sync.Mutex
	begun []net.Conn // whose handshakes are not done, oldest first
	limit ratelimit.Limit
}

// Listen begins to listen, until Close.
func Listen(ctx context.Context, opts Options) (*Listener, error) {
	tcp, err := alive.Minute.Listen(ctx, opts.Address)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		opts: opts, tcp: tcp, ready: make(chan net.Conn), limit: ratelimit.Limit{Burst: 5, Every: time.Minute},
	}
	l.ctx, l.end = context.WithCancel(context.WithoutCancel(ctx))
	go l.accept()
	return l, nil
}

func (l *Listener) accept() {
	for {
		conn, err := l.tcp.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.refused("accept", err)
			time.Sleep(100 * time.Millisecond) // there are no descriptors, for example
			continue
		}
		l.mu.Lock()
		if len(l.begun) >= maxHandshakes {
			_ = l.begun[0].Close() // its handshake fails, and removes it
			l.begun = l.begun[1:]
		}
		l.begun = append(l.begun, conn)
		l.mu.Unlock()
		go l.handshake(conn)
	}
}

// handshake hands a connection on when the client has proved who it is.
func (l *Listener) handshake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTime)
	defer cancel()
	under := conn
	if l.opts.Under != nil {
		under = l.opts.Under(conn)
	}
	secured := tls.Server(under, l.opts.TLS)
	err := secured.HandshakeContext(ctx)
	l.mu.Lock()
	l.begun = slices.DeleteFunc(l.begun, func(c net.Conn) bool { return c == conn })
	l.mu.Unlock()
	if err != nil {
		l.refused(conn.RemoteAddr().String(), err)
		_ = conn.Close()
		return
	}
	select {
	case l.ready <- secured:
	case <-l.ctx.Done():
		_ = conn.Close()
	}
}

// refused logs a connection that was not accepted, unless there are many.
func (l *Listener) refused(client string, err error) {
	l.mu.Lock()
	withheld, ok := l.limit.Allow(time.Now())
	l.mu.Unlock()
	if !ok || l.ctx.Err() != nil {
		return
	}
	l.opts.Log.Info(l.opts.Refusal, "client", client, "err", err, "withheld", withheld)
}

// Accept implements net.Listener. Each connection is a *tls.Conn.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.ctx.Done():
		return nil, fmt.Errorf("accept: %w", net.ErrClosed)
	}
}

// Close implements net.Listener. Connections that were accepted stay.
func (l *Listener) Close() error {
	l.end()
	return l.tcp.Close()
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }
