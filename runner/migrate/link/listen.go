package link

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"vmop/internal/mtls"
)

// helloTime is how long a connection may take to state its purpose.
const helloTime = 10 * time.Second

// A Listener is the target's end.
type Listener struct {
	l        *mtls.Listener
	accepted chan *Conn
	ctx      context.Context
	end      context.CancelFunc
}

// Listen listens at the address of the keys, until Close. Port 0 means any free port; see Address.
func Listen(ctx context.Context, keys Keys, log *slog.Logger) (*Listener, error) {
	config, err := keys.tlsConfig()
	if err != nil {
		return nil, err
	}
	l, err := mtls.Listen(ctx, mtls.Options{
		Address: keys.Address, TLS: config, Log: log, Refusal: "a connection that is not of the migration was refused",
		Under: newBuffered,
	})
	if err != nil {
		return nil, err
	}
	t := &Listener{l: l, accepted: make(chan *Conn)}
	t.ctx, t.end = context.WithCancel(context.WithoutCancel(ctx))
	go t.acceptConnections()
	return t, nil
}

func (t *Listener) acceptConnections() {
	for {
		conn, err := t.l.Accept()
		if err != nil {
			return
		}
		go t.welcomeConn(conn)
	}
}

// welcomeConn reads the purpose of a connection and hands the connection on.
func (t *Listener) welcomeConn(conn net.Conn) {
	c := newConn(conn.(*tls.Conn))
	var first hello
	err := conn.SetReadDeadline(time.Now().Add(helloTime))
	if err == nil {
		err = c.readValue(&first)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close()
		return
	}
	c.Stream = first.Stream
	select {
	case t.accepted <- c:
	case <-t.ctx.Done():
		_ = c.Close()
	}
}

// Accepted returns a channel of the source's connections. The receiver closes them.
func (t *Listener) Accepted() <-chan *Conn { return t.accepted }

// Address returns the listen address, HOST:PORT.
func (t *Listener) Address() string { return t.l.Addr().String() }

// Close stops listening. Connections that were received stay open.
func (t *Listener) Close() error {
	t.end()
	return t.l.Close()
}
