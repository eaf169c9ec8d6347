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
	end := func() { _, _ = stream.Close(), local.Close() }
	defer context.AfterFunc(ctx, end)()
	ended := make(chan error, 2)
	go func() { ended <- pass(stream.tls, local) }()
	go func() { ended <- pass(local, stream.in) }()
	err := <-ended
	if err != nil {
		end()
	}
	err = errors.Join(err, <-ended)
	end()
	return err
}

// pass copies until the end, which it passes on.
func pass(to interface {
	io.Writer
	CloseWrite() error
}, from io.Reader,
) error {
	// The sockets' own ways of copying are of no use here: one end is encrypted.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, chunk))
	if err != nil {
		return err
	}
	return to.CloseWrite()
}
