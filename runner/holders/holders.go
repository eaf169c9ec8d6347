// Package holders finds the processes that hold the locks of a VM, and ends them: of a VM whose
// runner can't be asked. No process is signalled because of a number that a file names: it
// holds the lock, and the kernel has a handle of it (pidfd_open(2)).
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

	"vmop/process"
	"vmop/runner/lock"
)

// Of returns the processes that have a lock of a data directory open, lock.RunnerFile or
// lock.MachineFile, except this one; also if the directory was removed or renamed. A process of an
// older runner has the file alone.
func Of(dataDir, file string) (found []process.ID, err error) {
	found, err = process.Holders(filepath.Join(dataDir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, _ := lock.Owned(dataDir, file)
	for _, name := range names {
		byName, err := process.SocketHolders(name)
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

// MonitorOption is the value of -mon by which a runner has QEMU serve its monitor: no other QEMU has it.
const MonitorOption = "chardev=" + MonitorID + ",mode=control"

// MonitorID is the id of the monitor's character device.
const MonitorID = "vmop-monitor"

// FindQEMU returns which of some processes is a QEMU that a runner has started, by its command line; zero if none is.
func FindQEMU(among []process.ID) process.ID {
	at := slices.IndexFunc(among, func(id process.ID) bool {
		words, err := id.Arguments()
		return err == nil && slices.Contains(words, MonitorOption)
	})
	if at < 0 {
		return process.ID{}
	}
	return among[at]
}

// Runner returns the process that is the runner of the VM of a data directory, as Of does; zero if
// there is none, or none that can be seen from here.
func Runner(dataDir string) process.ID {
	if dataDir == "" {
		return process.ID{}
	}
	if names, foreign := lock.Owned(dataDir, lock.RunnerFile); len(names) == 0 && !foreign {
		return process.ID{}
	}
	found, err := Of(dataDir, lock.RunnerFile)
	if err != nil || len(found) == 0 {
		return process.ID{}
	}
	// The others are processes that it is about to start.
	return slices.MinFunc(found, func(a, b process.ID) int { return cmp.Compare(a.Start, b.Start) })
}

// AskGuest asks the guest of a VM to shut down, as TERM to its runner does. The error wraps
// os.ErrProcessDone if it has no runner.
func AskGuest(dataDir string) (process.ID, error) {
	runner := Runner(dataDir)
	if runner == (process.ID{}) {
		return runner, fmt.Errorf("the VM has no runner: %w", os.ErrProcessDone)
	}
	return runner, runner.Signal(syscall.SIGTERM)
}

// Times of End.
const (
	graceTime = 2 * time.Second  // for QEMU to close its images
	endTime   = 20 * time.Second // in all
)

// End ends a VM without its guest: its runner by SIGKILL, if there is one, and then QEMU and its
// helpers, by SIGTERM and SIGKILL. It returns when they have ended, and whether there were any.
func End(ctx context.Context, dataDir string) (ended bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime,
		fmt.Errorf("processes of the VM are still there after %s", endTime))
	defer cancel()
	if runner := Runner(dataDir); runner != (process.ID{}) {
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
		left, fault := process.Adopt(id, "process of the VM", slog.New(slog.DiscardHandler))
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
