// Package holders finds the processes that hold the locks of a VM with an unreachable runner, and ends them. It
// never signals a process only because a file contains its number: the process must hold the lock, and the kernel
// provides a handle for it (pidfd_open(2)).
package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"vmop/internal/childprocess"
	"vmop/runner/adopt/lock"
)

// Of returns the processes that have a lock of a data directory open, lock.RunnerFile or lock.MachineFile, except
// this process. It finds them even if the directory was removed or renamed. Processes of an older runner only
// hold the file.
func Of(dataDir, file string) (found []childprocess.ID, err error) {
	found, err = childprocess.Holders(filepath.Join(dataDir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, _ := lock.Owned(dataDir, file)
	for _, name := range names {
		byName, err := childprocess.SocketHolders(name)
		if err != nil {
			return nil, err
		}
		for _, id := range byName {
			if !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	return found, nil
}

// MonitorOption is the value of -mon for the monitor of a runner's QEMU: no other QEMU has it.
const MonitorOption = "chardev=" + MonitorID + ",mode=control"

// MonitorID is the id of the monitor's character device.
const MonitorID = "vmop-monitor"

// FindQEMU returns the process that is a runner's QEMU according to its command line; zero if there is none.
func FindQEMU(among []childprocess.ID) childprocess.ID {
	at := slices.IndexFunc(among, func(id childprocess.ID) bool {
		words, err := id.Arguments()
		return err == nil && slices.Contains(words, MonitorOption)
	})
	if at < 0 {
		return childprocess.ID{}
	}
	return among[at]
}

// Runner returns the process of the runner for a data directory, found like in Of; zero if there is no visible
// runner.
func Runner(dataDir string) childprocess.ID {
	if dataDir == "" {
		return childprocess.ID{}
	}
	if names, foreign := lock.Owned(dataDir, lock.RunnerFile); len(names) == 0 && !foreign {
		return childprocess.ID{}
	}
	found, err := Of(dataDir, lock.RunnerFile)
	if err != nil || len(found) == 0 {
		return childprocess.ID{}
	}
	// The others are processes that it is about to start.
	return slices.MinFunc(found, func(a, b childprocess.ID) int { return cmp.Compare(a.Start, b.Start) })
}

// AskGuest asks the guest of a VM to shut down, by sending TERM to its runner. The error wraps os.ErrProcessDone
// if the VM has no runner.
func AskGuest(dataDir string) (childprocess.ID, error) {
	runner := Runner(dataDir)
	if runner == (childprocess.ID{}) {
		return runner, fmt.Errorf("the VM has no runner: %w", os.ErrProcessDone)
	}
	return runner, runner.Signal(syscall.SIGTERM)
}

// Times of End.
const (
	graceTime = 2 * time.Second  // for QEMU to close its images
	endTime   = 20 * time.Second // in all
)

// End ends a VM without asking its guest: its runner by SIGKILL, if there is one, and then QEMU and its helpers,
// by SIGTERM and SIGKILL. It returns when they have ended, and whether there were any.
func End(ctx context.Context, dataDir string) (ended bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime,
		fmt.Errorf("processes of the VM are still running after %s", endTime))
	defer cancel()
	if runner := Runner(dataDir); runner != (childprocess.ID{}) {
		ended = true
		if err := runner.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return ended, err
		}
		if err := runner.Await(ctx); err != nil {
			return ended, err
		}
	}
	found, err := Of(dataDir, lock.MachineFile)
	for _, id := range found {
		left, fault := childprocess.Adopt(id, "process of the VM", slog.New(slog.DiscardHandler))
		if errors.Is(fault, os.ErrProcessDone) {
			continue
		}
		ended = true
		if fault == nil {
			fault = left.Terminate(ctx, graceTime)
		}
		err = errors.Join(err, fault)
	}
	return ended, err
}
