package qmp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// maxPath is the longest path of a Unix socket, in bytes (unix(7): sun_path
// holds 108 with the NUL).
const maxPath = 107

// backlog is the number of connections that wait until QEMU accepts: ours
// before QEMU runs, and a later process that takes a running QEMU over.
const backlog = 4

// Listen makes the listening socket for QEMU's monitor. The file is for QEMU
// (process.Spec.Files); connections are accepted by QEMU alone. The socket has
// mode 0600 from its first moment. Whoever calls closes the file once QEMU has
// been started, and removes path at the end.
//
// A socket at path without a listener is replaced; one with a
// listener is an error that wraps syscall.EADDRINUSE. The path may have at most
// 107 bytes.
func Listen(path string) (*os.File, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen on QMP socket %s: the path has %d bytes, a Unix socket's may have %d", path, len(path), maxPath)
	}
	file, err := listen(path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the abandoned QMP socket: %w", err)
		}
		file, err = listen(path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on QMP socket %s: %w", path, err)
	}
	return file, nil
}

// listen sets the mode before the socket has a name: bind gives the file the
// mode of the socket (Linux, net/unix/af_unix.c: unix_bind_bsd).
func listen(path string) (*os.File, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), path)
	if err := syscall.Fchmod(fd, 0o600); err != nil {
		file.Close()
		return nil, os.NewSyscallError("fchmod", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		file.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	if err := syscall.Listen(fd, backlog); err != nil {
		file.Close()
		return nil, os.NewSyscallError("listen", err)
	}
	return file, nil
}

// abandoned reports whether path is a socket without a listener.
func abandoned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Dial connects to the monitor of a QEMU that runs and waits until it has
// greeted. QEMU serves one client at a time: while there is another one, Dial
// waits for it to leave.
func Dial(ctx context.Context, path string, options ...Option) (*Session, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to QMP socket %s: %w", path, err)
	}
	s := New(conn, options...)
	if err := s.Ready(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open QMP session on %s: %w", path, err)
	}
	return s, nil
}
