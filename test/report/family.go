package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leave is the time for processes to end by themselves after go test has ended.
	leave = 5 * time.Second
	// grace is the time for them to end after SIGTERM: runners shut their guests down, and guards take clusters down.
	grace = time.Minute
)

// family consists of this process and all its descendants, including orphans.
type family struct {
	mu   sync.Mutex
	test int // the child that this process waits for
}

// beFamily makes this process the parent of all its orphaned descendants, and waits for them in the background.
func beFamily() (*family, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphaned processes: %w", err)
	}
	f, ended := &family{}, make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			f.reapOrphans()
		}
	}()
	return f, nil
}

// startCommand starts a command that the caller waits for.
func (f *family) startCommand(cmd *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		f.test = cmd.Process.Pid
	}
	return err
}

// reapOrphans waits for orphans that have ended.
func (f *family) reapOrphans() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid, p := range allProcesses() {
		if p.parent == os.Getpid() && p.state == "Z" && pid != f.test {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// terminateAll sends SIGTERM to all descendants.
func (f *family) terminateAll() { f.signalDescendants(syscall.SIGTERM, map[int]bool{}) }

// signalDescendants sends a signal to descendants that have not received it. It signals the oldest first, so that no
// test notices the end of its programs. It checks each process again with a pidfd, because another process may have its
// number by now.
func (f *family) signalDescendants(signal syscall.Signal, told map[int]bool) {
	for _, pid := range slices.Sorted(maps.Keys(runningDescendants())) {
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if !told[pid] && runningDescendants()[pid] != "" {
			told[pid] = unix.PidfdSendSignal(handle, signal, nil, 0) == nil
		}
		_ = unix.Close(handle)
	}
}

// endDescendants ends all descendants. The error names those that did not end by themselves, unless the run was
// canceled.
func (f *family) endDescendants(ctx context.Context, out io.Writer) error {
	if ctx.Err() == nil {
		f.awaitNone(leave, func() {})
	}
	left := slices.Sorted(maps.Values(runningDescendants()))
	asked, killed := map[int]bool{}, map[int]bool{}
	f.awaitNone(grace, func() { f.signalDescendants(syscall.SIGTERM, asked) })
	f.awaitNone(grace, func() { f.signalDescendants(syscall.SIGKILL, killed) })
	if len(left) == 0 || ctx.Err() != nil {
		return nil
	}
	fmt.Fprintf(out, "Tests left these processes running:\n%s\n", strings.Join(left, "\n"))
	return errors.New("tests left processes running")
}

// awaitNone calls do until no descendant is left or the time is over. It checks several times, because it can miss a
// process that changes its parent during a check.
func (f *family) awaitNone(limit time.Duration, do func()) {
	late := time.Now().Add(limit)
	for none := 0; none < 3 && time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if len(runningDescendants()) > 0 {
			none = 0
			do()
		} else {
			none++
		}
	}
}

// processState contains fields of /proc/PID/stat; see proc(5).
type processState struct {
	state  string
	parent int
}

// allProcesses returns all processes of this machine by process ID.
func allProcesses() map[int]processState {
	all := map[int]processState{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // the name consists of digits
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			all[pid] = processState{state: fields[0], parent: parent}
		}
	}
	return all
}

// runningDescendants returns the command lines of the running descendants of this process, by process ID.
func runningDescendants() map[int]string {
	all, found := allProcesses(), map[int]string{}
	for pid, p := range all {
		for up := p.parent; up > 1; up = all[up].parent {
			if up == os.Getpid() && p.state != "Z" {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty if it has ended
				text := strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
				found[pid] = fmt.Sprintf("%d %.300s", pid, text)
				break
			}
		}
	}
	return found
}
