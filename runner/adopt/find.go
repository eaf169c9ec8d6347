package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"vmop/process"
	"vmop/runner/holders"
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
func Find(ctx context.Context, vm *prepare.VM, held *lock.Lock, log *slog.Logger) (*Remains, error) {
	s := search{vm: vm, lock: held, log: log}
	// Also if the VM is to be ended: what is there has to be known for that.
	ctx = context.WithoutCancel(ctx)
	for begin := time.Now(); ; {
		free, err := s.try()
		if free || err != nil {
			return nil, err
		}
		found, err := s.findRemains(ctx)
		if found != nil || err != nil {
			return found, err
		}
		ended, err := s.endRemains(ctx)
		if err == nil && ended == 0 && time.Since(begin) > remainsTime {
			err = fmt.Errorf("%w: a process that is not visible from here, of another user, container or host, "+
				"holds the lock %s", lock.ErrHeld, held.Path())
		}
		if err != nil {
			return nil, err
		}
		time.Sleep(lock.Tick) // one that is about to end, and can't be found any more, has the lock for a moment
	}
}

// End ends the processes of an earlier runner whose guest never ran, and takes the lock of the machine.
func End(ctx context.Context, vm *prepare.VM, held *lock.Lock, log *slog.Logger) error {
	s := search{vm: vm, lock: held, log: log}
	ctx = context.WithoutCancel(ctx)
	for begin := time.Now(); ; time.Sleep(lock.Tick) {
		free, err := s.try()
		if free || err != nil {
			return err
		}
		if ended, err := s.endRemains(ctx); err != nil || ended == 0 && time.Since(begin) > remainsTime {
			return errors.Join(err, fmt.Errorf("%w: %s", lock.ErrHeld, held.Path()))
		}
	}
}

// search is for the machine of a VM that may have been left.
type search struct {
	vm   *prepare.VM
	lock *lock.Lock
	log  *slog.Logger
}

// try takes the lock. A QEMU whose data directory is gone is neither adopted nor ended: what it
// writes is lost when it ends.
func (s search) try() (bool, error) {
	free, err := s.lock.Try()
	var lost *lock.LostError
	if !errors.As(err, &lost) {
		return free, err
	}
	found, fault := s.holders()
	if fault != nil {
		return false, fault
	}
	qemu := holders.FindQEMU(found)
	if lost.PID = qemu.PID; qemu == (process.ID{}) {
		return false, nil // what is left of it is ended
	}
	return false, lost
}

// findRemains returns the machine that runs; nil if there is none: what has the
// lock never let its guest run, or outlived QEMU. Whenever that isn't sure there
// is an error, for what is left is ended.
func (s search) findRemains(ctx context.Context) (*Remains, error) {
	dir, ran := record.Linked(s.vm.DataDir, s.vm.RuntimeDir)
	f := finding{search: s, dir: dir}
	if f.holders, f.err = s.holders(); f.err != nil {
		return nil, f.err
	}
	if err := f.reach(); err != nil {
		s.log.Warn("QEMU's monitor is not reached", "err", err)
	}
	r, there, err := record.Read(dir)
	if there && r.DataDir != s.vm.DataDir && !slices.Contains(f.holders, r.QEMU) {
		r, there = record.Machine{}, false // of another VM: not the same directory by another path
	}
	f.found = r
	path := filepath.Join(dir, prepare.RecordFile)
	switch {
	case err != nil:
		f.err = err
	case !there && ran:
		f.err = fmt.Errorf("its record %s is gone", path)
	case !there:
		return f.unrecorded(ctx)
	case r.CheckVersion(dir) != nil:
		f.err = r.CheckVersion(dir)
	default:
		qemu, err := process.Adopt(r.QEMU, "qemu", s.log)
		if !errors.Is(err, os.ErrProcessDone) {
			return &Remains{record: r, dir: dir, qemu: qemu}, err
		}
		if f.qemu() == (process.ID{}) {
			return nil, nil // what is left has outlived QEMU
		}
		f.err = fmt.Errorf("its record %s names process %d, which is not there", path, r.QEMU.PID)
	}
	return f.rebuild(ctx)
}

// holders returns the processes that have the lock of the machine.
func (s search) holders() ([]process.ID, error) {
	return holders.Of(filepath.Dir(s.lock.Path()), lock.MachineFile)
}

// endRemains ends the processes that have the lock of the machine, and returns how many
// there were: its guest has never run, or QEMU has ended without them.
func (s search) endRemains(ctx context.Context) (int, error) {
	found, err := s.holders()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, remainsTime)
	defer cancel()
	for _, id := range found {
		left, err := process.Adopt(id, "left process", s.log)
		if errors.Is(err, os.ErrProcessDone) {
			continue
		}
		if err != nil {
			return 0, err
		}
		s.log.Warn("ending a process that an earlier runner left", "pid", id.PID)
		if err := left.Terminate(ctx, leftTime); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}
