package link

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"vmop/internal/keepalive"
	"vmop/runner/migrate"
)

const (
	// longest is the maximum length of a line, in bytes. An offer contains a VM type.
	longest = 8 << 20
	// sayTime is how long sending a message may take.
	sayTime = 10 * time.Second
	// dialTime is for a connection and its handshake.
	dialTime = 10 * time.Second
)

// A Frame is a message with its data.
type Frame struct {
	Message migrate.Message `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// A Conn is a connection to the other side, for messages or for a stream. Close may be called at any time. The
// other methods may be called by one goroutine per direction.
type Conn struct {
	// Stream is the name of the stream; "" is for messages.
	Stream string

	tls *tls.Conn
	in  *bufio.Reader
}

// hello is the first line of a connection.
type hello struct {
	Stream string `json:"stream"`
}

// Dial connects to the target. An empty stream means a connection for messages.
func Dial(ctx context.Context, keys Keys, stream string) (*Conn, error) {
	c, err := dialStream(ctx, keys, stream)
	if err != nil {
		return nil, fmt.Errorf("connect with the target of the migration, %s: %w", keys.Address, err)
	}
	return c, nil
}

func dialStream(ctx context.Context, keys Keys, stream string) (*Conn, error) {
	config, err := keys.tlsConfig()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := keepalive.Minute.Dialer().DialContext(ctx, "tcp", keys.Address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(newBuffered(conn), config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := newConn(secured)
	c.Stream = stream
	if err := c.writeValue(hello{stream}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func newConn(conn *tls.Conn) *Conn { return &Conn{tls: conn, in: bufio.NewReaderSize(conn, chunk)} }

// Send sends a message with data encoded as JSON; nil means no data.
func (c *Conn) Send(m migrate.Message, data any) error {
	f := Frame{Message: m}
	if data != nil {
		text, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("encode the message %s: %w", m, err)
		}
		f.Data = text
	}
	if err := c.writeValue(f); err != nil {
		return fmt.Errorf("send the message %s: %w", m, err)
	}
	return nil
}

func (c *Conn) writeValue(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(line) >= longest {
		return fmt.Errorf("it has %d bytes, and %d are possible", len(line), longest-1)
	}
	if err := c.tls.SetWriteDeadline(time.Now().Add(sayTime)); err != nil {
		return err
	}
	if _, err = c.tls.Write(append(line, '\n')); err != nil {
		return err
	}
	return c.tls.SetWriteDeadline(time.Time{})
}

// Receive waits for the next message. After an error the connection can't be used any more.
func (c *Conn) Receive() (f Frame, err error) {
	if err := c.readValue(&f); err != nil {
		return Frame{}, fmt.Errorf("read a message of the migration: %w", err)
	}
	return f, nil
}

func (c *Conn) readValue(into any) error {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longest:
			return fmt.Errorf("it is longer than %d bytes", longest)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return err
		}
		return json.Unmarshal(line, into)
	}
}

// Close closes the connection.
func (c *Conn) Close() error { return c.tls.Close() }
