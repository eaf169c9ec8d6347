package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// chunk is how much is read at once, in bytes.
const chunk = 256 << 10

// Pair returns two sockets that are connected with each other: one for Carry, and one to be handed to a
// QEMU. The caller closes both.
func Pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "migration stream")
	mine := os.NewFile(uintptr(fds[0]), "migration stream")
	conn, err := net.FileConn(mine) // has a descriptor of its own
	if err = errors.Join(err, mine.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// Carry copies bytes between a stream and a socket, both ways, until both have ended or one has failed, or
// ctx ends. It closes both.
func Carry(ctx context.Context, stream *Conn, local *net.UnixConn) error {
	end := func() { _, _ = local.Close(), stream.Close() } // that of the stream may take 5 s if the peer is silent
	defer context.AfterFunc(ctx, end)()
	ended := make(chan error, 2)
	go func() { ended <- stream.send(local) }()
	go func() { ended <- stream.receive(local) }()
	err := <-ended
	if err != nil {
		end()
	}
	err = errors.Join(err, <-ended)
	end()
	return err
}

// send copies what comes from a socket into a stream, until the end, which it passes on.
func (c *Conn) send(from *net.UnixConn) error {
	buffer, under := make([]byte, chunk), c.tls.NetConn().(*buffered)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := under.together(func() error { _, err := c.tls.Write(buffer[:n]); return err }); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return c.tls.CloseWrite()
		case err != nil:
			return err
		}
	}
}

// receive copies what comes from a stream into a socket, until the end, which it passes on.
func (c *Conn) receive(to *net.UnixConn) error {
	buffer, under := make([]byte, chunk), c.tls.NetConn().(*buffered)
	var from io.Reader = c.in // has what came with the first line
	for {
		n, err := from.Read(buffer)
		if c.in.Buffered() == 0 {
			from = c.tls
		}
		for from == c.tls && err == nil && n < len(buffer) && under.in.Buffered() > 0 {
			var more int
			more, err = from.Read(buffer[n:])
			n += more
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return to.CloseWrite()
		case err != nil:
			return err
		}
	}
}
