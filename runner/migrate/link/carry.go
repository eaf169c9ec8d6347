package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// chunk is the maximum number of bytes per read.
const chunk = 256 << 10

// Pair returns two connected sockets: one for Carry, and one to be passed to a QEMU. The caller closes both.
func Pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "migration stream")
	mine := os.NewFile(uintptr(fds[0]), "migration stream")
	conn, err := net.FileConn(mine) // has its own descriptor
	if err = errors.Join(err, mine.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// Carry copies bytes between a stream and a socket in both directions until both have ended, one has failed, or
// ctx is done. It closes both.
func Carry(ctx context.Context, stream *Conn, local *net.UnixConn) error {
	end := func() { _, _ = local.Close(), stream.Close() } // closing the stream may take 5 s if the peer is silent
	defer context.AfterFunc(ctx, end)()
	ended := make(chan error, 2)
	go func() { ended <- stream.sendSocket(local) }()
	go func() { ended <- stream.receiveSocket(local) }()
	err := <-ended
	if err != nil {
		end()
	}
	err = errors.Join(err, <-ended)
	end()
	return err
}

// sendSocket copies from a socket to a stream until the end of the data, which it passes on.
func (c *Conn) sendSocket(from *net.UnixConn) error {
	buffer, under := make([]byte, chunk), c.tls.NetConn().(*buffered)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := under.writeTogether(func() error { _, err := c.tls.Write(buffer[:n]); return err }); err != nil {
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

// receiveSocket copies from a stream to a socket until the end of the data, which it passes on.
func (c *Conn) receiveSocket(to *net.UnixConn) error {
	buffer, under := make([]byte, chunk), c.tls.NetConn().(*buffered)
	var from io.Reader = c.in // contains what came with the first line
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
