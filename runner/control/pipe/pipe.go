// Package pipe carries a connection over the standard streams of a process, for example a process that Kubernetes
// runs in a pod:
//
//	conn := pipe.New(os.Stdin, os.Stdout, nil)     // in the process
//	conn := pipe.New(stdout, stdin, closeStreams)  // in the program that has started it
//
// Each direction is a sequence of frames: a length of 2 bytes, most significant byte first, and that number of
// bytes. The length 0 ends a direction. A side that has finished sending, but still reads, therefore differs from
// a side that has disappeared. This matters because Kubernetes doesn't end a process after its user has gone, but
// only closes its standard input.
package pipe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// largestFrame is the largest number of bytes in a frame.
const largestFrame = 16 << 10

// A Conn is one end. Reading and writing may be done concurrently.
type Conn struct {
	in    *bufio.Reader
	left  int // bytes of the current frame
	ended bool
	end   func() error

	mu     sync.Mutex // held during a write
	out    io.Writer
	closed bool // for writing
}

// New returns an end that reads and writes streams. end closes them; it may be nil.
func New(in io.Reader, out io.Writer, end func() error) *Conn {
	return &Conn{in: bufio.NewReader(in), out: out, end: end}
}

// Read implements net.Conn. The error is io.EOF when the other end has finished sending, io.ErrUnexpectedEOF when
// it has disappeared before that.
func (c *Conn) Read(p []byte) (int, error) {
	for c.left == 0 {
		if c.ended {
			return 0, io.EOF
		}
		var header [2]byte
		if _, err := io.ReadFull(c.in, header[:]); err != nil {
			return 0, endedEarly(err)
		}
		c.left = int(binary.BigEndian.Uint16(header[:]))
		c.ended = c.left == 0
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	if err != nil {
		err = endedEarly(err)
	}
	return n, err
}

// endedEarly returns the error for a stream that has ended too early.
func endedEarly(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (written int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p) > 0 && err == nil {
		if c.closed {
			return written, net.ErrClosed
		}
		part := p[:min(len(p), largestFrame)]
		if err = c.writeFrame(part); err == nil {
			written += len(part)
		}
		p = p[len(part):]
	}
	return written, err
}

func (c *Conn) writeFrame(data []byte) error {
	frame := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(data)), uint16(len(data)))
	if _, err := c.out.Write(append(frame, data...)); err != nil {
		return fmt.Errorf("write to the other end: %w", err)
	}
	return nil
}

// CloseWrite ends the sent direction.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return c.writeFrame(nil)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.end == nil {
		return nil
	}
	return c.end()
}

// Splice copies between an end and another connection, in both directions, until both directions have ended, or
// the other end of the Conn has gone. It closes the connection.
func Splice(c *Conn, conn net.Conn) {
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(c, conn) // only its end matters
		_ = c.CloseWrite()
	}()
	if _, err := io.Copy(conn, c); err != nil {
		_ = conn.Close()
	} else if half, ok := conn.(interface{ CloseWrite() error }); ok {
		go c.closeWithStream(conn)
		_ = half.CloseWrite()
	}
	<-done
}

// closeWithStream closes a connection when the stream ends, after its last frame.
func (c *Conn) closeWithStream(conn net.Conn) {
	_, _ = c.in.ReadByte()
	_ = conn.Close()
}

// The rest of net.Conn: addresses and deadlines are not supported.

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }

// LocalAddr implements net.Conn.
func (*Conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (*Conn) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (*Conn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn.
func (*Conn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn.
func (*Conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
