package link

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"vmop/mutual"
)

// helloTime is how long a connection may take to say what it is for.
const helloTime = 10 * time.Second

// A Listener is the target's end.
type Listener struct {
	l        *mutual.Listener
	accepted chan *Conn
	ctx      context.Context
	end      context.CancelFunc
}

// Listen begins to listen at the address of the keys, until Close. If its port is 0, it is any that is free: see
// Address.
func Listen(ctx context.Context, keys Keys, log *slog.Logger) (*Listener, error) {
	config, err := keys.config()
	if err != nil {
		return nil, err
	}
	l, err := mutual.Listen(ctx, mutual.Options{
		Address: keys.Address, TLS: config, Log: log, Refusal: "a connection that is not of the migration was refused",
		Under: newBuffered,
	})
	if err != nil {
		return nil, err
	}
	t := &Listener{l: l, accepted: make(chan *Conn)}
	t.ctx, t.end = context.WithCancel(context.WithoutCancel(ctx))
	go t.accept()
	return t, nil
}

func (t *Listener) accept() {
	for {
		conn, err := t.l.Accept()
		if err != nil {
			return
		}
		go t.welcome(conn)
	}
}

// welcome hands a connection on when it has said what it is for.
func (t *Listener) welcome(conn net.Conn) {
	c := newConn(conn.(*tls.Conn))
	var first hello
	err := conn.SetReadDeadline(time.Now().Add(helloTime))
	if err == nil {
		err = c.read(&first)
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

// Accepted has the connections of the source. The receiver closes them.
func (t *Listener) Accepted() <-chan *Conn { return t.accepted }

// Address is where it listens, HOST:PORT.
func (t *Listener) Address() string { return t.l.Addr().String() }

// Close ends it. Connections that were received stay.
func (t *Listener) Close() error {
	t.end()
	return t.l.Close()
}
