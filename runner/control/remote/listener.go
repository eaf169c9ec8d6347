package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"vmop/alive"
	"vmop/runner/ratelimit"
)

// ManagerURI is the name in the certificates of managers, a URI (RFC 5280, 4.2.1.6).
const ManagerURI = "vmop://manager"

// Bounds of what strangers may take.
const (
	handshakeTime = 10 * time.Second
	maxHandshakes = 64
)

// Options configure a Listener. Authorities and Log are required.
type Options struct {
	// Authorities is the path of the certificates (PEM) of the manager's authorities. As
	// long as there is no such file, nothing is accepted.
	Authorities string
	// Port to listen on, at every address; 0 is any that is free.
	Port int
	// Log gets who is refused, and why.
	Log *slog.Logger
}

// A Listener accepts connections of the manager.
type Listener struct {
	opts   Options
	tcp    net.Listener
	config *tls.Config
	key    string
	ready  chan net.Conn
	end    context.CancelFunc
	ctx    context.Context // of the handshakes

	mu    sync.Mutex
	begun []net.Conn // whose handshakes are not done, oldest first
	limit ratelimit.Limit
}

// Listen begins to listen, until Close.
func Listen(ctx context.Context, opts Options) (*Listener, error) {
	certificate, key, err := newIdentity(time.Now())
	if err != nil {
		return nil, err
	}
	tcp, err := alive.Minute.Listen(ctx, net.JoinHostPort("", strconv.Itoa(opts.Port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the manager: %w", err)
	}
	l := &Listener{
		opts: opts, tcp: tcp, key: key, ready: make(chan net.Conn),
		limit: ratelimit.Limit{Burst: 5, Every: time.Minute},
	}
	l.ctx, l.end = context.WithCancel(context.WithoutCancel(ctx))
	l.config = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate},
		NextProtos:             []string{"http/1.1"}, // streams take connections over, which HTTP/2 has not
		SessionTicketsDisabled: true,                 // each connection proves who it is by the present authorities
		GetConfigForClient:     l.configNow,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		VerifyConnection:       isManager,
	}
	go l.accept()
	return l, nil
}

// configNow returns the configuration with the present authorities.
func (l *Listener) configNow(*tls.ClientHelloInfo) (*tls.Config, error) {
	text, err := os.ReadFile(l.opts.Authorities)
	if err != nil {
		return nil, fmt.Errorf("read the manager's authorities: %w", err)
	}
	config := l.config.Clone()
	config.GetConfigForClient, config.ClientCAs = nil, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", l.opts.Authorities)
	}
	return config, nil
}

// isManager returns an error unless a verified certificate is a manager's.
func isManager(state tls.ConnectionState) error {
	for _, uri := range state.PeerCertificates[0].URIs {
		if uri.String() == ManagerURI {
			return nil
		}
	}
	return errors.New("the certificate is not of a manager: its names lack " + ManagerURI)
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

// handshake hands a connection on when the client has proved to be the manager.
func (l *Listener) handshake(conn net.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTime)
	defer cancel()
	secured := tls.Server(conn, l.config)
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
	l.opts.Log.Info("a connection that is not the manager's was refused", "client", client, "err", err,
		"withheld", withheld)
}

// Accept implements net.Listener: it returns connections of the manager.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.end()
	return l.tcp.Close()
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Port returns the TCP port.
func (l *Listener) Port() int { return l.tcp.Addr().(*net.TCPAddr).Port }

// Key returns the hash of the runner's public key, as KeyHash makes it.
func (l *Listener) Key() string { return l.key }
