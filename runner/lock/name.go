package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Name returns the lock's name in the kernel, an abstract Unix socket's (unix(7)); "" if
// the directory isn't there. No process can remove it: it is free when the last one
// has ended that holds it. It holds in a network namespace.
func (l *Lock) Name() string {
	var s unix.Stat_t
	if err := unix.Stat(filepath.Dir(l.path), &s); err != nil {
		return ""
	}
	return fmt.Sprintf("@vmop/%s/%d:%d/%d", filepath.Base(l.path), unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino)
}

// takeName takes the name, and reports whether no process of the VM has it. Where there
// are no such names, or another user has taken it, who has no say in whether this one's VM
// runs, the file alone is the lock. The file is locked already.
func (l *Lock) takeName() (bool, error) {
	name := l.Name()
	if l.name != nil || name == "" {
		return true, nil
	}
	for begin := time.Now(); ; time.Sleep(Tick) {
		socket, err := listen(name)
		if !errors.Is(err, unix.EADDRINUSE) {
			l.name = socket
			return true, nil
		}
		owner, err := ownerOf(name)
		if !errors.Is(err, unix.ECONNREFUSED) {
			return err == nil && int(owner.Uid) != os.Geteuid() && owner.Uid != 0, nil
		}
		if time.Since(begin) > dyingTime { // one that ends is gone by now: this is no lock
			return true, nil
		}
	}
}

// listen takes a name. The socket listens for ownerOf; no connection is accepted.
func listen(name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("listen on "+name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// ownerOf returns the process that has taken a name first.
func ownerOf(name string) (*unix.Ucred, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	return unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
}
