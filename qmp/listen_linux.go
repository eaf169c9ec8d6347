package qmp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// maxPath is the maximum length of a Unix socket's path in bytes (unix(7): sun_path has 108 bytes, including the
// NUL).
const maxPath = 107

// backlog is the number of connections that can wait until QEMU accepts them: our connection before QEMU runs, and
// the connection of a later process that takes over a running QEMU.
const backlog = 4

// Listen creates the listening socket for QEMU's monitor. Pass the file to QEMU (childprocess.Spec.Files); only QEMU
// accepts connections. The socket has mode 0600 from the beginning. The caller closes the file after QEMU has been
// started, and removes path at the end.
//
// Listen replaces a socket at path without a listener. If the socket has a listener, Listen returns an error that
// wraps syscall.EADDRINUSE. The path may have at most 107 bytes.
func Listen(path string) (*os.File, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen on QMP socket %s: the path has %d bytes, a Unix socket's may have %d", path, len(path), maxPath)
	}
	file, err := listenAt(path)
	if errors.Is(err, syscall.EADDRINUSE) && isAbandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the abandoned QMP socket: %w", err)
		}
		file, err = listenAt(path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on QMP socket %s: %w", path, err)
	}
	return file, nil
}

// listenAt sets the mode before the socket has a name, because bind copies the mode of the socket to the file (Linux,
// net/unix/af_unix.c: unix_bind_bsd).
func listenAt(path string) (*os.File, error) {
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

// isAbandoned reports whether path is a socket without a listener.
func isAbandoned(path string) bool {
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

// Dial connects to the monitor of a running QEMU and waits for its greeting. QEMU serves one client at a time: if
// another client is connected, Dial waits until it disconnects.
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
