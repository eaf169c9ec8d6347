package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Adopt takes charge of a process that runs already, as if Start had started it:
// one that a runner before this one has left. What it writes is not seen and Tail
// is empty. How it ended is known if it is a child of this process, and of others
// where the kernel tells (on Linux 6.15 and later it mostly does). A child must be
// adopted once only, and no other process may wait for it.
//
// The error wraps os.ErrProcessDone if the process has ended.
func Adopt(id ID, name string, logger *slog.Logger) (*Process, error) {
	p := &Process{name: name, id: id, done: make(chan struct{}), err: newStream("stderr", logger, TailSize)}
	handle, err := p.adopt()
	if err != nil {
		return nil, fmt.Errorf("adopt %s: process %d: %w", name, id.PID, err)
	}
	logger.Info("process adopted", "process", name, "pid", id.PID)
	go p.waitAdopted(handle)
	return p, nil
}

// adopt returns a handle to wait by.
func (p *Process) adopt() (_ *os.File, err error) {
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
	// Both handles were open before the identity is read. If it is the right one,
	// so are they.
	s, err := readStat(p.id.PID)
	if err == nil && (s.start != p.id.Start || ended(fd)) {
		err = os.ErrProcessDone
	}
	if err != nil {
		handle.Close()
		return nil, err
	}
	return handle, nil
}

// ended reports whether the process of a pidfd has ended, collected or not.
func ended(fd int) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(polled, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// waitAdopted waits for the end of a process that this one need not be the parent
// of.
func (p *Process) waitAdopted(handle *os.File) {
	p.exit = Exit{Code: -1}
	if raw, err := handle.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
		_ = raw.Control(func(fd uintptr) { p.exit = p.collect(int(fd)) })
	}
	_ = p.proc.Release()
	handle.Close()
	close(p.done)
}

// collect finds out how the process of the pidfd ended, collects it if it is a
// child, and kills what is left of its group.
func (p *Process) collect(fd int) Exit {
	status, known := p.zombie()
	_ = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil) // ECHILD: it is not a child
	// Since Linux 6.9; the group has the process's number or is not its own.
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

// zombie returns the exit status of the process if it has not been collected. Who
// may not see it sees 0, and may not read the link either.
func (p *Process) zombie() (status syscall.WaitStatus, known bool) {
	_, hidden := os.Readlink(procPath(p.id.PID, "ns/user"))
	s, err := readStat(p.id.PID)
	return s.exit, err == nil && s.start == p.id.Start && hidden == nil
}
