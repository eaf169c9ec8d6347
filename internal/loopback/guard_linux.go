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

// mark is the environment variable that makes a process a guard. Its value is the number of the guarded process.
const mark = "VMOP_LOOPBACK_GUARD"

// title is the guard's argument, for people who list processes.
const title = "loopback-guard"

// Descriptors of a guard.
const (
	callsFD  = 3
	runnerFD = 4
)

// limitsMark is the environment variable with a guard's limits, as letters (Limits.letters).
const limitsMark = "VMOP_GUARD_LIMITS"

// Limits describe what a guard denies to a process in addition to its guest's connections to loopback addresses.
type Limits struct {
	// Internal denies internal addresses, as Serve's function defines them, to connections that the process opens
	// itself, such as for a CD by URL.
	Internal bool
	// Loopback denies loopback addresses to libraries of the process, such as libcurl, which follows redirects.
	// QEMU's own connections, to NBD servers and other QEMUs, still reach them.
	Loopback bool
}

func (l Limits) limitLetters() (text string) {
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

// Guard starts a guard process that answers calls of a process until the process ends. A non-nil error is the reason
// why the process still reaches loopback addresses. If the guard doesn't start, the process continues to run but
// can't connect.
func Guard(calls *os.File, pid int, limits Limits) error {
	defer calls.Close()
	if err := checkReadable(pid); err != nil {
		return errors.Join(err, startGuard(calls, nil, pid, limits))
	}
	if mayReadOthers() {
		return startGuard(calls, nil, pid, limits)
	}
	return relieveGuard(calls, pid, limits)
}

// relieveGuard answers calls in this process, which may read its children's memory. It also starts a guard for the time
// after this process, which then lets all calls through.
func relieveGuard(calls *os.File, pid int, limits Limits) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := startGuard(calls, r, pid, limits); err != nil {
		return errors.Join(err, w.Close())
	}
	own, err := unix.FcntlInt(calls.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return errors.Join(os.NewSyscallError("fcntl", err), w.Close())
	}
	go func() {
		defer w.Close()
		defer unix.Close(own)
		runtime.LockOSThread() // it blocks in system calls
		(&guard{calls: own, pid: pid, limits: limits}).answerCalls()
	}()
	return nil
}

// startGuard starts a guard. The guard begins when the other end of wait is closed, or immediately if wait is nil.
func startGuard(calls, wait *os.File, pid int, limits Limits) error {
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
			mark + "=" + strconv.Itoa(pid), limitsMark + "=" + limits.limitLetters(), "GOMAXPROCS=1", "GOGC=20",
		},
	})
	if err != nil {
		return fmt.Errorf("start the guard of loopback addresses: %w", err)
	}
	go func() { _, _ = p.Wait() }()
	return nil
}

// checkReadable returns an error if this process may not read the addresses of another process.
func checkReadable(pid int) error {
	f, err := os.Open(memoryOf(pid))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH): // the process has ended
		return nil
	case err != nil:
		return fmt.Errorf("its addresses can't be read: %w", err)
	}
	return f.Close()
}

func memoryOf(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/mem" }

// mayReadOthers reports whether this process may read the memory of processes that aren't its children. If Yama
// forbids that (ptrace_scope), it needs a capability.
func mayReadOthers() bool {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err != nil || strings.TrimSpace(string(scope)) == "0" {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

// EndsWithRunner reports whether guests can reach loopback addresses after their runner was killed.
func EndsWithRunner() bool { return !mayReadOthers() }

// internal reports whether an address is internal; Serve sets it.
var internal func(netip.AddrPort) bool

// Serve runs the guard if this process is a guard, and then doesn't return. Otherwise it only sets isInternal. It
// must be the first call in main. isInternal is for Limits.Internal.
func Serve(isInternal func(netip.AddrPort) bool) {
	internal = isInternal
	pid, err := strconv.Atoi(os.Getenv(mark))
	if err != nil {
		return
	}
	unix.CloseOnExec(callsFD)
	// The runner never writes: the end of the runner ends this read.
	_, _ = io.Copy(io.Discard, os.NewFile(runnerFD, "runner"))
	(&guard{calls: callsFD, pid: pid, limits: limitsOf(os.Getenv(limitsMark))}).answerCalls()
	os.Exit(0)
}

// A guard answers the calls of a process.
type guard struct {
	calls, pid int
	limits     Limits
	// pidfd is a handle of the process; 0 until it is needed.
	pidfd int
}

// call is struct seccomp_notif, and reply is struct seccomp_notif_resp.
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

// answerCalls answers calls until the process has ended.
func (g *guard) answerCalls() {
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
		if g.controlSeccomp(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&c)) != nil {
			continue // the call was interrupted, or its process has ended
		}
		r := reply{id: c.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if g.isDenied(&c) {
			r = c.deniedReply()
		}
		_ = g.controlSeccomp(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // the process may have ended
	}
}

// deniedReply returns the result for QEMU of a denied call. It isn't an error, because libslirp 4.7 crashes when an
// IPv6 connection fails immediately. A connection counts as in progress: since its socket isn't connected, it later
// fails like a refused connection. Sent data is lost.
func (c *call) deniedReply() reply {
	if c.number == unix.SYS_SENDTO {
		return reply{id: c.id, value: int64(c.parameters[2])}
	}
	return reply{id: c.id, errno: -int32(unix.EINPROGRESS)}
}

func (g *guard) controlSeccomp(request uintptr, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(g.calls), request, uintptr(argument))
	if errno != 0 {
		return errno
	}
	return nil
}

// isDenied reports whether a call must be denied: its destination is forbidden for the user of its socket.
func (g *guard) isDenied(c *call) bool {
	address, length := c.parameters[1], c.parameters[2]
	if c.number == unix.SYS_SENDTO {
		address, length = c.parameters[4], c.parameters[5]
	}
	to, ok := g.readAddress(int(c.thread), address, min(length, longestAddress))
	local := isLoopbackAddr(to.Addr())
	inside := g.limits.Internal && !local && internal != nil && internal(to)
	if !ok || !local && !inside || isNameServer(to) {
		return false
	}
	if c.number == unix.SYS_SENDTO {
		return local
	}
	switch g.socketUserOf(int(c.parameters[0])) {
	case guest:
		return local
	case qemu:
		return inside
	case library:
		return inside || g.limits.Loopback
	}
	return true
}

// readAddress reads an address from the memory of a thread.
func (g *guard) readAddress(thread int, at, length uint64) (to netip.AddrPort, ok bool) {
	fd, err := unix.Open(memoryOf(thread), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return to, false
	}
	defer unix.Close(fd)
	buffer := make([]byte, length)
	if n, err := unix.Pread(fd, buffer, int64(at)); err != nil || n != len(buffer) {
		return to, false
	}
	return destinationOf(buffer)
}

// A user is the part of QEMU that uses a socket.
type user int

const (
	unknown user = iota // the socket can't be inspected, as in containers
	guest
	qemu    // for a disk, or for another QEMU
	library // a library of QEMU: libcurl for a CD
)

// socketUserOf returns the user of a socket. libslirp sets SO_OOBINLINE on each connection of the guest, and QEMU sets
// SO_REUSEADDR on its own. Only the guest sends without a connection.
func (g *guard) socketUserOf(number int) user {
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
