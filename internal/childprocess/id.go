package childprocess

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

// ID identifies a process until the host restarts. After a process has ended, the kernel can reuse its number, but
// the next process has a later start time.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks (1/100 s) since the host's start
}

// Runs reports whether the process is still running.
func (id ID) Runs() bool {
	p := &Process{id: id}
	handle, err := p.openHandle()
	if err != nil {
		return false
	}
	_ = p.proc.Release()
	handle.Close()
	return true
}

// Signal sends a signal to the process, never to another process that has the same number by now. The error wraps
// os.ErrProcessDone if the process has ended.
func (id ID) Signal(sig syscall.Signal) error {
	p := &Process{id: id}
	handle, err := p.openHandle()
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

// Await waits until the process has ended, or returns the error of ctx.
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

// Stopped reports whether a signal, such as SIGSTOP, has stopped the process.
func (id ID) Stopped() bool {
	s, err := readStat(id.PID)
	return err == nil && s.start == id.Start && s.state == 'T'
}

// BoundSocket returns a path to a Unix socket that the process has open with O_PATH, or "" if it has no such socket.
// name is the last part of the socket's original path. The socket may have been removed since.
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

// Arguments returns the command line of the process, beginning with its program.
func (id ID) Arguments() ([]string, error) {
	text, err := os.ReadFile(procPath(id.PID, "cmdline"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

// Began returns the start time of the process.
func (id ID) Began() time.Time {
	const tick = time.Second / 100
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil { // this clock exists since Linux 2.6.39
		return time.Now()
	}
	return time.Now().Add(time.Duration(id.Start)*tick - time.Duration(now.Nano()))
}

// Ended returns how the process ended. The exit status is known until the parent collects the process. A process
// closes its files before it ends, so Ended waits for a process that is about to end, until ctx is done.
func (id ID) Ended(ctx context.Context) (exit Exit, known bool) {
	if id.PID <= 0 {
		return exit, false
	}
	if id.Await(ctx) != nil {
		return exit, false
	}
	status, known := (&Process{id: id}).zombieStatus()
	return exitOf(status), known
}

// endTick is the interval between Await's checks of a process.
const endTick = 10 * time.Millisecond

// Identify returns the identity of the process that currently has the number. The error wraps os.ErrProcessDone if
// no process has it. A process that has ended but not been collected still counts.
func Identify(pid int) (ID, error) {
	s, err := readStat(pid)
	return ID{pid, s.start}, err
}

// stat contains some fields of /proc/PID/stat (proc_pid_stat(5)).
type stat struct {
	state byte // 'R', 'S', 'T' …
	start uint64
	exit  syscall.WaitStatus // after the end; also 0 if the kernel hides it
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

// parseStat parses the text after the last parenthesis: the program's name, in parentheses, can contain any
// character.
func parseStat(text []byte) (stat, error) {
	// Field numbers in proc_pid_stat(5).
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

// Holders returns the other processes that have the file at path open, for example because they inherited a lock. It
// leaves out processes that this process may not inspect. It can miss a process that opens or closes the file at the
// same time. It takes about 1 µs for each open file of the user's processes, or of all processes for root.
func Holders(path string) ([]ID, error) {
	file, err := identifyFile(path)
	if err != nil {
		return nil, fmt.Errorf("find the processes that have %s open: %w", path, err)
	}
	found, err := holdersOf(file)
	if err != nil {
		return nil, fmt.Errorf("find the processes that have %s open: %w", path, err)
	}
	return found, nil
}

// holdersOf returns the other processes that have a file open.
func holdersOf(file fileID) (found []ID, err error) {
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
		if id, holds := holderOf(pid, file); holds {
			found = append(found, id)
		}
	}
	return found, nil
}

// holderOf reports whether a process has the file open.
func holderOf(pid int, file fileID) (ID, bool) {
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
		// Check again: the number may have passed to another process before Identify.
		found, err := identifyFile(path)
		return id, err == nil && found == file
	}
	return ID{}, false
}

// fileID identifies a file.
type fileID struct {
	major, minor uint32
	inode        uint64
}

// identifyFile follows links. It doesn't contact the server of a network file system, which might not answer.
func identifyFile(path string) (fileID, error) {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &s); err != nil {
		return fileID{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return fileID{s.Dev_major, s.Dev_minor, s.Ino}, nil
}
