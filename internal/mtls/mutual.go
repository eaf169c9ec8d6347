// Package mtls accepts TLS connections from clients that prove their identity, at a TCP port that strangers can also
// reach.
//
//	l, err := mtls.Listen(ctx, mtls.Options{Address: ":7443", TLS: config, Refusal: "…", Log: log})
//	conn, err := l.Accept() // its handshake is done
//
// Each client has handshakeTime to present its certificate. At most maxHandshakes clients can be in the handshake: a
// further client displaces the oldest, so silent strangers can't lock clients out.
package mtls

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

	"vmop/internal/keepalive"
	"vmop/internal/ratelimit"
)

// Limits for the resources that strangers can use.
const (
	handshakeTime = 10 * time.Second
	maxHandshakes = 64
)

// Options configure a Listener. All except Under are required.
type Options struct {
	// Address to listen on, HOST:PORT. An empty host means every address, and port 0 any free port.
	Address string
	// TLS is the configuration of the server. It also determines whether clients must present certificates.
	TLS *tls.Config
	// Under wraps a connection before the TLS handshake; nil uses the connection itself.
	Under func(net.Conn) net.Conn
	// Refusal is the log message for a refused connection.
	Refusal string
	// Log receives the refused clients and the reasons.
	Log *slog.Logger
}

// A Listener accepts connections and completes their handshakes.
type Listener struct {
	opts  Options
	tcp   net.Listener
	ready chan net.Conn
	end   context.CancelFunc
	ctx   context.Context // of the handshakes

	mu    sync.Mutex
	begun []net.Conn // connections during their handshake, oldest first
	limit ratelimit.Limit
}

// Listen listens until Close.
func Listen(ctx context.Context, opts Options) (*Listener, error) {
	tcp, err := keepalive.Minute.Listen(ctx, opts.Address)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		opts: opts, tcp: tcp, ready: make(chan net.Conn), limit: ratelimit.Limit{Burst: 5, Every: time.Minute},
	}
	l.ctx, l.end = context.WithCancel(context.WithoutCancel(ctx))
	go l.acceptConnections()
	return l, nil
}

func (l *Listener) acceptConnections() {
	for {
		conn, err := l.tcp.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.logRefused("accept", err)
			time.Sleep(100 * time.Millisecond) // for example, no descriptor is free
			continue
		}
		l.mu.Lock()
		if len(l.begun) >= maxHandshakes {
			_ = l.begun[0].Close() // its handshake fails, which removes it
			l.begun = l.begun[1:]
		}
		l.begun = append(l.begun, conn)
		l.mu.Unlock()
		go l.handshakeWith(conn)
	}
}

// handshakeWith passes a connection on after the client has proved its identity.
func (l *Listener) handshakeWith(conn net.Conn) {
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
		l.logRefused(conn.RemoteAddr().String(), err)
		_ = conn.Close()
		return
	}
	select {
	case l.ready <- secured:
	case <-l.ctx.Done():
		_ = conn.Close()
	}
}

// logRefused logs a refused connection, unless there are too many.
func (l *Listener) logRefused(client string, err error) {
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

// Close implements net.Listener. It doesn't close accepted connections.
func (l *Listener) Close() error {
	l.end()
	return l.tcp.Close()
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }
