package lock

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Names returns the lock's names in the kernel, which are names of abstract Unix sockets (unix(7)). They can't be
// removed: a name becomes free when its last holder has ended. They are valid in one network namespace.
func (l *Lock) Names() []string {
	if name := l.identityName(); name != "" {
		return []string{name, l.pathName()}
	}
	return []string{l.pathName()}
}

// identityName returns the name from the identity of the data directory; "" if the directory doesn't exist.
func (l *Lock) identityName() string {
	identity := identityOf(filepath.Dir(l.path))
	if identity == "" {
		return ""
	}
	return "@vmop/" + filepath.Base(l.path) + "/" + identity
}

// pathName returns the name from the path of the data directory, the user, and the root directory, which
// distinguishes the containers of a host.
func (l *Lock) pathName() string {
	hash := sha256.Sum256([]byte(filepath.Clean(l.path)))
	return fmt.Sprintf("@vmop/%s/path/%s/%d/%x", filepath.Base(l.path), identityOf("/"), os.Geteuid(), hash[:16])
}

// identityOf returns the unique identity of a directory; "" if it doesn't exist.
func identityOf(dir string) string {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d/%d", unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino)
}

// Lost reports whether a process of this user runs the VM of a data directory that isn't at its path any more. It
// changes nothing.
func Lost(dataDir string) bool {
	for _, file := range []string{RunnerFile, MachineFile} {
		if (&Lock{path: filepath.Join(dataDir, file)}).isLost() {
			return true
		}
	}
	return false
}

// closingTime is how long an ending process may hold one of its names after it has lost the other.
const closingTime = 50 * time.Millisecond

func (l *Lock) isLost() bool {
	for begin := time.Now(); ; time.Sleep(Tick) {
		_, byPath := heldBy(l.pathName())
		_, byIdentity := heldBy(l.identityName())
		if !byPath || byIdentity {
			return false
		}
		if time.Since(begin) > closingTime {
			return true
		}
	}
}

// Owned returns the names of a data directory's lock, RunnerFile or MachineFile, that are held by a process of
// this user or of root. foreign reports whether another user holds a name; the lock then consists of the file
// alone.
func Owned(dataDir, file string) (names []string, foreign bool) {
	for _, name := range (&Lock{path: filepath.Join(dataDir, file)}).Names() {
		taken, ours := heldBy(name)
		if ours {
			names = append(names, name)
		}
		foreign = foreign || taken && !ours
	}
	return names, foreign
}

// heldBy reports whether a name is taken, and whether by a trusted owner. An empty name is free.
func heldBy(name string) (taken, ours bool) {
	if name == "" {
		return false, false
	}
	owner, err := ownerOfName(name)
	return err == nil, err == nil && isTrustedOwner(owner)
}

// isTrustedOwner reports whether the owner of a name may block this user's VMs.
func isTrustedOwner(owner *unix.Ucred) bool { return int(owner.Uid) == os.Geteuid() || owner.Uid == 0 }

// takeNames acquires the names, and reports whether all are free of other processes of the VM. The file is
// already locked.
func (l *Lock) takeNames() (bool, error) {
	if name := l.identityName(); name != "" {
		if free, err := l.takeName(name); !free || err != nil {
			return false, err
		}
	}
	for begin := time.Now(); ; time.Sleep(Tick) {
		free, err := l.takeName(l.pathName())
		if free || err != nil {
			return free, err
		}
		if time.Since(begin) > closingTime {
			lost := &LostError{DataDir: filepath.Dir(l.path)}
			if owner, err := ownerOfName(l.pathName()); err == nil {
				lost.PID = int(owner.Pid)
			}
			return false, errors.Join(lost, l.releaseNames())
		}
	}
}

// takeName acquires a name, and reports whether no process of the VM holds it. If such names don't exist, or an
// untrusted user holds it, the file alone is the lock.
func (l *Lock) takeName(name string) (bool, error) {
	if slices.ContainsFunc(l.names, func(f *os.File) bool { return f.Name() == name }) {
		return true, nil
	}
	for begin := time.Now(); ; time.Sleep(Tick) {
		socket, err := listenByName(name)
		if !errors.Is(err, unix.EADDRINUSE) {
			if err == nil {
				l.names = append(l.names, socket)
			}
			return true, nil
		}
		owner, err := ownerOfName(name)
		if !errors.Is(err, unix.ECONNREFUSED) {
			return err == nil && !isTrustedOwner(owner), nil
		}
		if time.Since(begin) > dyingTime { // an ending process is gone by now: this isn't a lock
			return true, nil
		}
	}
}

// listenByName acquires a name. The socket listens for ownerOfName; connections are never accepted.
func listenByName(name string) (*os.File, error) {
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

// ownerOfName returns the process that has first acquired a name.
func ownerOfName(name string) (*unix.Ucred, error) {
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
