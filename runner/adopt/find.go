package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/process"
	"vmop/runner/lock"
	"vmop/runner/prepare"
	"vmop/runner/record"
)

// remainsTime is how long processes that an earlier runner has left are waited
// for, once they have been signalled.
const remainsTime = 10 * time.Second

// leftTime is what each of them has to end in good order: QEMU marks bitmaps of
// the images that it has open.
const leftTime = 2 * time.Second

// Remains is a machine that an earlier runner, which was killed, has left
// running.
type Remains struct {
	record record.Machine
	dir    string // the runtime directory
	qemu   *process.Process
}

// Pid is the process number of its QEMU.
func (r *Remains) Pid() int { return r.qemu.Pid() }

// Find takes the lock of the machine, which is open. If a process of an earlier runner
// has it, there are two cases: the guest has begun to run, and the machine is
// returned; or QEMU was only being started, or has ended, and what is left of it
// is ended.
func Find(ctx context.Context, vm *prepare.VM, held *os.File, log *slog.Logger) (*Remains, error) {
	s := search{vm: vm, lock: held, log: log}
	// Also if the VM is to be ended: what is there has to be known for that.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), remainsTime)
	defer cancel()
	for {
		free, err := lock.Try(held)
		if free || err != nil {
			return nil, err
		}
		found, err := s.findRemains()
		if found != nil || err != nil {
			return found, err
		}
		if err := s.endRemains(ctx); err != nil {
			return nil, err
		}
	}
}

// search is for the machine of a VM that may have been left.
type search struct {
	vm   *prepare.VM
	lock *os.File
	log  *slog.Logger
}

// findRemains returns the machine that runs; nil if there is none: what has the
// lock never let its guest run, or outlived QEMU. Whenever that isn't sure there
// is an error, for what is left is ended.
func (s search) findRemains() (*Remains, error) {
	dir, ran := record.Linked(s.vm.DataDir, s.vm.RuntimeDir)
	found := &Remains{dir: dir}
	var there bool
	var err error
	if found.record, there, err = record.Read(dir); err != nil {
		return nil, err
	}
	if there && found.record.DataDir != s.vm.DataDir {
		there = s.hasLocked(found.record.QEMU) // the same directory by another path
	}
	if !there && ran {
		return nil, fmt.Errorf("the VM is running, but cannot be adopted: its record %s is gone; SIGTERM ends its processes: %s",
			filepath.Join(dir, prepare.RecordFile), s.holders())
	}
	if !there {
		return nil, nil
	}
	if err := found.record.CheckVersion(dir); err != nil {
		return nil, err
	}
	found.qemu, err = process.Adopt(found.record.QEMU, "qemu", s.log)
	if errors.Is(err, os.ErrProcessDone) {
		return nil, nil
	}
	return found, err
}

// hasLocked reports whether a process has the lock of the machine.
func (s search) hasLocked(id process.ID) bool {
	holders, err := process.Holders(s.lock.Name())
	return err == nil && slices.Contains(holders, id)
}

// holders names the processes that have the lock of the machine.
func (s search) holders() string {
	holders, err := process.Holders(s.lock.Name())
	if err != nil || len(holders) == 0 {
		return "none that can be seen from here"
	}
	var pids []string
	for _, id := range holders {
		pids = append(pids, strconv.Itoa(id.PID))
	}
	return strings.Join(pids, ", ")
}

// endRemains ends the processes that have the lock of the machine: its guest
// has never run, or QEMU has ended without them.
func (s search) endRemains(ctx context.Context) error {
	holders, err := process.Holders(s.lock.Name())
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		return s.mayEnd(ctx)
	}
	for _, id := range holders {
		left, err := process.Adopt(id, "left process", s.log)
		if errors.Is(err, os.ErrProcessDone) {
			continue
		}
		if err != nil {
			return err
		}
		s.log.Warn("ending a process that an earlier runner left", "pid", id.PID)
		if err := left.Terminate(ctx, leftTime); err != nil {
			return err
		}
	}
	return nil
}

// mayEnd gives a process that is about to end, and can't be found any more, the
// time to do so.
func (s search) mayEnd(ctx context.Context) error {
	select {
	case <-time.After(lock.Tick):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: a process that is not visible from here, of another user, container or host, holds the lock %s", lock.ErrHeld, s.lock.Name())
	}
}
