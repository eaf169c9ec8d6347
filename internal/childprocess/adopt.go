package childprocess

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Adopt takes over a running process, which an earlier runner has left, as if Start had started it. Its output isn't
// logged, and Tail is empty. The exit status is known if the process is a child of this process, or if the kernel
// reports it (Linux 6.15 and later usually does). A child must be adopted only once, and no other process may wait
// for it.
//
// The error wraps os.ErrProcessDone if the process has ended.
func Adopt(id ID, name string, logger *slog.Logger) (*Process, error) {
	p := &Process{name: name, id: id, done: make(chan struct{}), err: newStream("stderr", logger, TailSize)}
	handle, err := p.openHandle()
	if err != nil {
		return nil, fmt.Errorf("adopt %s: process %d: %w", name, id.PID, err)
	}
	logger.Info("process adopted", "process", name, "pid", id.PID)
	go p.waitAdopted(handle)
	return p, nil
}

// openHandle returns a handle for waiting.
func (p *Process) openHandle() (_ *os.File, err error) {
	if p.id.PID <= 0 {
		return nil, os.ErrInvalid
	}
	if p.proc, err = os.FindProcess(p.id.PID); err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(p.id.PID, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, os.ErrProcessDone
	case err != nil:
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	handle := os.NewFile(uintptr(fd), p.name)
	// Both handles were opened before the identity is read. If the identity is right, the handles are too.
	s, err := readStat(p.id.PID)
	if err == nil && (s.start != p.id.Start || hasEnded(fd)) {
		err = os.ErrProcessDone
	}
	if err != nil {
		handle.Close()
		return nil, err
	}
	return handle, nil
}

// hasEnded reports whether the process of a pidfd has ended, even if it hasn't been collected.
func hasEnded(fd int) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(polled, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// waitAdopted waits for the end of a process that need not be a child of this process.
func (p *Process) waitAdopted(handle *os.File) {
	p.exit = Exit{Code: -1}
	if raw, err := handle.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool { return hasEnded(int(fd)) })
		_ = raw.Control(func(fd uintptr) { p.exit = p.collectExit(int(fd)) })
	}
	_ = p.proc.Release()
	handle.Close()
	close(p.done)
}

// collectExit determines how the process of the pidfd ended, collects it if it is a child, and kills the rest of its
// group.
func (p *Process) collectExit(fd int) Exit {
	status, known := p.zombieStatus()
	_ = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil) // ECHILD: it isn't a child
	// Since Linux 6.9. The group has the process's number, or it isn't the process's own group.
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if !known {
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		err := unix.IoctlPidfdInfo(fd, &info)
		status, known = syscall.WaitStatus(info.Exit_code), err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0
	}
	if !known {
		return Exit{Code: -1}
	}
	return exitOf(status)
}

// zombieStatus returns the exit status of the process if it hasn't been collected. Without permission the kernel shows
// the status 0, and also hides the link.
func (p *Process) zombieStatus() (status syscall.WaitStatus, known bool) {
	_, hidden := os.Readlink(procPath(p.id.PID, "ns/user"))
	s, err := readStat(p.id.PID)
	return s.exit, err == nil && s.start == p.id.Start && hidden == nil
}
