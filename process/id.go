package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ID tells a process from all others until the host is restarted: the kernel gives
// a number to another process when the first has ended, but that one starts later.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // when it started, in clock ticks (1/100 s) since the host's start
}

// Runs reports whether the process has not ended.
func (id ID) Runs() bool {
	p := &Process{id: id}
	handle, err := p.adopt()
	if err != nil {
		return false
	}
	_ = p.proc.Release()
	handle.Close()
	return true
}

// Signal sends a signal to the process, and to no other that has its number by now. The error
// wraps os.ErrProcessDone if it has ended.
func (id ID) Signal(sig syscall.Signal) error {
	p := &Process{id: id}
	handle, err := p.adopt()
	if err != nil {
		return fmt.Errorf("send %s to process %d: %w", signalName(sig), id.PID, err)
	}
	defer handle.Close()
	_ = p.proc.Release()
	raw, err := handle.SyscallConn()
	if err == nil {
		controlErr := raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
		err = errors.Join(err, controlErr)
	}
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("send %s to process %d: %w", signalName(sig), id.PID, err)
	}
	return nil
}

// Await returns when the process has ended, or with the error of ctx.
func (id ID) Await(ctx context.Context) error {
	for id.Runs() {
		select {
		case <-time.After(endTick):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Stopped reports whether a signal, such as SIGSTOP, keeps the process from running.
func (id ID) Stopped() bool {
	s, err := readStat(id.PID)
	return err == nil && s.start == id.Start && s.state == 'T'
}

// BoundSocket returns a path that leads to a Unix socket which the process has open by its place
// in the file system (O_PATH), "" if there is none: the last part of its path is name. The socket
// may have been removed since.
func (id ID) BoundSocket(name string) string {
	dir := procPath(id.PID, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		at, err := os.Readlink(path)
		if err != nil || filepath.Base(strings.TrimSuffix(at, " (deleted)")) != name || !filepath.IsAbs(at) {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeSocket {
			return path
		}
	}
	return ""
}

// Arguments returns the command line of the process, its program first.
func (id ID) Arguments() ([]string, error) {
	text, err := os.ReadFile(procPath(id.PID, "cmdline"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

// Began returns when the process was started.
func (id ID) Began() time.Time {
	const tick = time.Second / 100
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil { // Linux has had this clock since 2.6.39
		return time.Now()
	}
	return time.Now().Add(time.Duration(id.Start)*tick - time.Duration(now.Nano()))
}

// Ended returns how the process has ended, if that is known: as long as its parent
// hasn't collected it. One that is about to end, which closes its files first, is
// waited for until ctx is done.
func (id ID) Ended(ctx context.Context) (exit Exit, known bool) {
	if id.PID <= 0 {
		return exit, false
	}
	if id.Await(ctx) != nil {
		return exit, false
	}
	status, known := (&Process{id: id}).zombie()
	return exitOf(status), known
}

// endTick is how often it is looked whether a process has ended that is about to.
const endTick = 10 * time.Millisecond

// Identify reads the identity of the process that has the number now. Its error
// wraps os.ErrProcessDone if there is none; one that has ended and waits to be
// collected still counts.
func Identify(pid int) (ID, error) {
	s, err := readStat(pid)
	return ID{pid, s.start}, err
}

// stat is what is used of /proc/PID/stat (proc_pid_stat(5)).
type stat struct {
	state byte // 'R', 'S', 'T' …
	start uint64
	exit  syscall.WaitStatus // of one that has ended; 0 also where the kernel keeps it to itself
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(procPath(pid, "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return stat{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// parseStat reads from the last parenthesis on: the name of the program, which is
// in parentheses, may contain anything.
func parseStat(text []byte) (stat, error) {
	// Numbers of the fields in proc_pid_stat(5).
	const (
		afterName = 3
		startTime = 22 - afterName
		exitCode  = 52 - afterName
	)
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= exitCode {
		return stat{}, fmt.Errorf("%q has too few fields: %w", text, syscall.EINVAL)
	}
	start, err := strconv.ParseUint(string(fields[startTime]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("start time: %w", err)
	}
	exit, err := strconv.ParseUint(string(fields[exitCode]), 10, 32)
	if err != nil {
		return stat{}, fmt.Errorf("exit status: %w", err)
	}
	return stat{fields[0][0], start, syscall.WaitStatus(exit)}, nil
}

func procPath(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// Holders returns the processes that have the file at path open, except this one:
// who has inherited a lock, for example. Processes of others that this one may not
// look into are left out; so is one that opens or closes the file meanwhile,
// perhaps. It takes about 1 µs for each open file of the user's processes, and for
// root of all.
func Holders(path string) ([]ID, error) {
	file, err := identifyFile(path)
	if err != nil {
		return nil, fmt.Errorf("find the processes that have %s open: %w", path, err)
	}
	found, err := holders(file)
	if err != nil {
		return nil, fmt.Errorf("find the processes that have %s open: %w", path, err)
	}
	return found, nil
}

// holders returns the processes that have a file open, except this one.
func holders(file fileID) (found []ID, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if id, holds := holder(pid, file); holds {
			found = append(found, id)
		}
	}
	return found, nil
}

// holder reports whether a process has the file open.
func holder(pid int, file fileID) (ID, bool) {
	if user := os.Geteuid(); user != 0 {
		var s unix.Stat_t
		if unix.Stat(procPath(pid, ""), &s) != nil || int(s.Uid) != user {
			return ID{}, false
		}
	}
	dir, err := os.Open(procPath(pid, "fd"))
	if err != nil {
		return ID{}, false
	}
	defer dir.Close()
	descriptors, err := dir.Readdirnames(-1)
	if err != nil {
		return ID{}, false
	}
	for _, fd := range descriptors {
		path := filepath.Join(dir.Name(), fd)
		if found, err := identifyFile(path); err != nil || found != file {
			continue
		}
		id, err := Identify(pid)
		if err != nil {
			return ID{}, false
		}
		// Once more: the number may have become another process's before it was
		// identified.
		found, err := identifyFile(path)
		return id, err == nil && found == file
	}
	return ID{}, false
}

// fileID tells a file from all others.
type fileID struct {
	major, minor uint32
	inode        uint64
}

// identifyFile follows links. It asks no server of a network file system, which
// might not answer.
func identifyFile(path string) (fileID, error) {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &s); err != nil {
		return fileID{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return fileID{s.Dev_major, s.Dev_minor, s.Ino}, nil
}
