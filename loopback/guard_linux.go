package loopback

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mark is the variable of the environment by which a process knows that it is a guard: it has the number of
// the guarded process.
const mark = "VMOP_LOOPBACK_GUARD"

// title is the guard's argument, for those who list processes.
const title = "loopback-guard"

// The descriptors of a guard.
const (
	callsFD  = 3
	runnerFD = 4
)

// limitsMark is the variable with the limits of a guard, as the letters of Limits.letters.
const limitsMark = "VMOP_GUARD_LIMITS"

// Limits are what a guard denies to a process besides connections of its guest to loopback addresses.
type Limits struct {
	// Internal denies internal addresses, by Serve's function, for what the process reads itself, such as a CD by URL.
	Internal bool
	// Loopback denies loopback addresses to libraries of the process, such as libcurl, which follows redirects.
	// QEMU's own connections, to NBD servers and other QEMUs, reach them.
	Loopback bool
}

func (l Limits) letters() (text string) {
	if l.Internal {
		text += "i"
	}
	if l.Loopback {
		text += "l"
	}
	return text
}

func limitsOf(letters string) Limits {
	return Limits{Internal: strings.Contains(letters, "i"), Loopback: strings.Contains(letters, "l")}
}

// Guard has calls of a process answered until that ends, by a process of its own. The error says why the
// process reaches loopback addresses nevertheless; it is nil if it doesn't. A guard that doesn't start ends
// no process, but it keeps it from connecting.
func Guard(calls *os.File, pid int, limits Limits) error {
	defer calls.Close()
	if err := readable(pid); err != nil {
		return errors.Join(err, start(calls, nil, pid, limits))
	}
	if mayReadOthers() {
		return start(calls, nil, pid, limits)
	}
	return relieve(calls, pid, limits)
}

// relieve answers in this process, which may read its own child's memory, and has a guard that begins when
// this process has ended. That guard lets all calls through.
func relieve(calls *os.File, pid int, limits Limits) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := start(calls, r, pid, limits); err != nil {
		return errors.Join(err, w.Close())
	}
	own, err := unix.FcntlInt(calls.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return errors.Join(os.NewSyscallError("fcntl", err), w.Close())
	}
	go func() {
		defer w.Close()
		defer unix.Close(own)
		runtime.LockOSThread() // it waits in system calls
		(&guard{calls: own, pid: pid, limits: limits}).answer()
	}()
	return nil
}

// start starts a guard, which begins when the other end of wait is closed, immediately if there is none.
func start(calls, wait *os.File, pid int, limits Limits) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if wait == nil {
		wait = null
	}
	p, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], title}, &os.ProcAttr{
		Dir: "/", Files: []*os.File{null, null, null, calls, wait}, Sys: &syscall.SysProcAttr{Setsid: true},
		Env: []string{
			mark + "=" + strconv.Itoa(pid), limitsMark + "=" + limits.letters(), "GOMAXPROCS=1", "GOGC=20",
		},
	})
	if err != nil {
		return fmt.Errorf("start the guard of loopback addresses: %w", err)
	}
	go func() { _, _ = p.Wait() }()
	return nil
}

// readable returns an error if this process may not read the addresses of another.
func readable(pid int) error {
	f, err := os.Open(memoryOf(pid))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH): // it has ended
		return nil
	case err != nil:
		return fmt.Errorf("its addresses can't be read: %w", err)
	}
	return f.Close()
}

func memoryOf(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/mem" }

// mayReadOthers reports whether this process may read the memory of processes that it hasn't started. Where
// Yama forbids it (ptrace_scope), it needs a capability.
func mayReadOthers() bool {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err != nil || strings.TrimSpace(string(scope)) == "0" {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

// EndsWithRunner reports whether guests reach loopback addresses when the runner that has started them was
// killed.
func EndsWithRunner() bool { return !mayReadOthers() }

// internal reports whether an address is internal; it is Serve's.
var internal func(netip.AddrPort) bool

// Serve is the life of a guard if this process is one, and then doesn't return. Otherwise it does nothing. It
// has to be the first that main does. isInternal is for Limits.Internal.
func Serve(isInternal func(netip.AddrPort) bool) {
	internal = isInternal
	pid, err := strconv.Atoi(os.Getenv(mark))
	if err != nil {
		return
	}
	unix.CloseOnExec(callsFD)
	// There is nothing to read: it ends with the runner.
	_, _ = io.Copy(io.Discard, os.NewFile(runnerFD, "runner"))
	(&guard{calls: callsFD, pid: pid, limits: limitsOf(os.Getenv(limitsMark))}).answer()
	os.Exit(0)
}

// A guard answers the calls of a process.
type guard struct {
	calls, pid int
	limits     Limits
	// pidfd is a handle of the process; 0 until it is needed.
	pidfd int
}

// call is struct seccomp_notif, and reply struct seccomp_notif_resp.
type (
	call struct {
		id         uint64
		thread     uint32
		_          uint32
		number     int32
		_          uint32
		_          uint64
		parameters [6]uint64
	}
	reply struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
)

// answer answers calls until the process has ended.
func (g *guard) answer() {
	for {
		ready := []unix.PollFd{{Fd: int32(g.calls), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			if ready[0].Revents != 0 {
				return // no process has the filter any more
			}
			continue
		}
		var c call
		if g.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&c)) != nil {
			continue // it was interrupted, or its process has ended
		}
		r := reply{id: c.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if g.denies(&c) {
			r = c.denied()
		}
		_ = g.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // its process may have ended
	}
}

// denied returns what QEMU gets instead. It is no error: libslirp 4.7 crashes when a connection by IPv6 fails
// immediately. One that is in progress, of a socket that isn't connected, fails as one that is refused. What is
// sent is lost.
func (c *call) denied() reply {
	if c.number == unix.SYS_SENDTO {
		return reply{id: c.id, value: int64(c.parameters[2])}
	}
	return reply{id: c.id, errno: -int32(unix.EINPROGRESS)}
}

func (g *guard) control(request uintptr, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(g.calls), request, uintptr(argument))
	if errno != 0 {
		return errno
	}
	return nil
}

// denies reports whether a call leads where whom it is for must not get.
func (g *guard) denies(c *call) bool {
	address, length := c.parameters[1], c.parameters[2]
	if c.number == unix.SYS_SENDTO {
		address, length = c.parameters[4], c.parameters[5]
	}
	to, ok := g.read(int(c.thread), address, min(length, longestAddress))
	local := isLoopback(to.Addr())
	inside := g.limits.Internal && !local && internal != nil && internal(to)
	if !ok || !local && !inside || isNameServer(to) {
		return false
	}
	if c.number == unix.SYS_SENDTO {
		return local
	}
	switch g.userOf(int(c.parameters[0])) {
	case guest:
		return local
	case qemu:
		return inside
	case library:
		return inside || g.limits.Loopback
	}
	return true
}

// read reads an address in the memory of a thread.
func (g *guard) read(thread int, at, length uint64) (to netip.AddrPort, ok bool) {
	fd, err := unix.Open(memoryOf(thread), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return to, false
	}
	defer unix.Close(fd)
	buffer := make([]byte, length)
	if n, err := unix.Pread(fd, buffer, int64(at)); err != nil || n != len(buffer) {
		return to, false
	}
	return destination(buffer)
}

// A user is for whom a socket is.
type user int

const (
	unknown user = iota // it can't be looked at, as in containers
	guest
	qemu    // a disk, or another QEMU
	library // of QEMU: a CD by libcurl
)

// userOf returns for whom a socket is. libslirp sets SO_OOBINLINE of each connection of the guest, and QEMU
// SO_REUSEADDR of its own. Only the guest sends without a connection.
func (g *guard) userOf(number int) user {
	if g.pidfd == 0 {
		fd, err := unix.PidfdOpen(g.pid, 0)
		if err != nil {
			return unknown
		}
		g.pidfd = fd
	}
	socket, err := unix.PidfdGetfd(g.pidfd, number, 0)
	if err != nil {
		return unknown
	}
	defer unix.Close(socket)
	is := func(option int) bool {
		value, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, option)
		return err == nil && value != 0
	}
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	switch {
	case err != nil:
		return unknown
	case kind != unix.SOCK_STREAM, is(unix.SO_OOBINLINE):
		return guest
	case is(unix.SO_REUSEADDR):
		return qemu
	}
	return library
}
