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

// Names returns the lock's names in the kernel, those of abstract Unix sockets (unix(7)). No
// process can remove them: they are free when the last one has ended that holds them. They
// hold in a network namespace.
func (l *Lock) Names() []string {
	if name := l.identityName(); name != "" {
		return []string{name, l.pathName()}
	}
	return []string{l.pathName()}
}

// identityName is from the identity of the data directory; "" if there is none.
func (l *Lock) identityName() string {
	identity := identityOf(filepath.Dir(l.path))
	if identity == "" {
		return ""
	}
	return "@vmop/" + filepath.Base(l.path) + "/" + identity
}

// pathName is from the path of the data directory, the user, and the root directory, which
// tells the containers of a host apart.
func (l *Lock) pathName() string {
	hash := sha256.Sum256([]byte(filepath.Clean(l.path)))
	return fmt.Sprintf("@vmop/%s/path/%s/%d/%x", filepath.Base(l.path), identityOf("/"), os.Geteuid(), hash[:16])
}

// identityOf returns what tells a directory from all others; "" if it isn't there.
func identityOf(dir string) string {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d/%d", unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino)
}

// Lost reports whether a process of this user has the VM of a data directory that isn't at
// its path any more. It changes nothing.
func Lost(dataDir string) bool {
	for _, file := range []string{RunnerFile, MachineFile} {
		if (&Lock{path: filepath.Join(dataDir, file)}).lost() {
			return true
		}
	}
	return false
}

// closingTime is how long a process that ends may have one of its names when it has lost the
// other.
const closingTime = 50 * time.Millisecond

func (l *Lock) lost() bool {
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

// Owned returns those of the names of a data directory's lock, RunnerFile or MachineFile, that
// a process of this user, or of root, has taken. foreign says that another user has one,
// so that the file alone is the lock.
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

// heldBy reports whether a name is taken, and whether by whom has a say in it. "" is free.
func heldBy(name string) (taken, ours bool) {
	if name == "" {
		return false, false
	}
	owner, err := ownerOf(name)
	return err == nil, err == nil && trusted(owner)
}

// trusted reports whether the owner of a name has a say in whether this user's VMs run.
func trusted(owner *unix.Ucred) bool { return int(owner.Uid) == os.Geteuid() || owner.Uid == 0 }

// takeNames takes the names, and reports whether no process of the VM has one. The file is
// locked already.
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
			if owner, err := ownerOf(l.pathName()); err == nil {
				lost.PID = int(owner.Pid)
			}
			return false, errors.Join(lost, l.releaseNames())
		}
	}
}

// takeName takes a name, and reports whether no process of the VM has it. Where there
// are no such names, or another user has taken it, who has no say in whether this one's VM
// runs, the file alone is the lock.
func (l *Lock) takeName(name string) (bool, error) {
	if slices.ContainsFunc(l.names, func(f *os.File) bool { return f.Name() == name }) {
		return true, nil
	}
	for begin := time.Now(); ; time.Sleep(Tick) {
		socket, err := listen(name)
		if !errors.Is(err, unix.EADDRINUSE) {
			if err == nil {
				l.names = append(l.names, socket)
			}
			return true, nil
		}
		owner, err := ownerOf(name)
		if !errors.Is(err, unix.ECONNREFUSED) {
			return err == nil && !trusted(owner), nil
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
