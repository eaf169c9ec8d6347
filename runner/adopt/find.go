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

	"vmop/internal/childprocess"
	"vmop/runner/adopt/holders"
	"vmop/runner/adopt/lock"
	"vmop/runner/adopt/record"
	"vmop/runner/prepare"
)

// remainsTime is how long to wait for processes of an earlier runner after they were signaled.
const remainsTime = 10 * time.Second

// leftTime is the time for each of them to end in good order: QEMU marks bitmaps of its open images.
const leftTime = 2 * time.Second

// Remains is a running machine that a killed runner has left.
type Remains struct {
	record record.Machine
	dir    string // the runtime directory
	qemu   *childprocess.Process
}

// Pid returns the process number of its QEMU.
func (r *Remains) Pid() int { return r.qemu.Pid() }

// Find acquires the open lock of the machine. If a process of an earlier runner holds it, there are two cases:
//
//   - The guest has begun to run. Find returns the machine.
//   - QEMU was only being started, or has ended. Find ends its remains.
func Find(ctx context.Context, vm *prepare.VM, held *lock.Lock, log *slog.Logger) (*Remains, error) {
	s := search{vm: vm, lock: held, log: log}
	// Continue even if a stop was requested, because ending the VM requires finding its processes.
	ctx = context.WithoutCancel(ctx)
	for begin := time.Now(); ; {
		free, err := s.tryLock()
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
		time.Sleep(lock.Tick) // an ending process that can't be found any more holds the lock for a moment
	}
}

// End ends the processes of an earlier runner with a guest that never ran, and acquires the lock of the machine.
func End(ctx context.Context, vm *prepare.VM, held *lock.Lock, log *slog.Logger) error {
	s := search{vm: vm, lock: held, log: log}
	ctx = context.WithoutCancel(ctx)
	for begin := time.Now(); ; time.Sleep(lock.Tick) {
		free, err := s.tryLock()
		if free || err != nil {
			return err
		}
		if ended, err := s.endRemains(ctx); err != nil || ended == 0 && time.Since(begin) > remainsTime {
			return errors.Join(err, fmt.Errorf("%w: %s", lock.ErrHeld, held.Path()))
		}
	}
}

// search looks for the machine of a VM that may have been left.
type search struct {
	vm   *prepare.VM
	lock *lock.Lock
	log  *slog.Logger
}

// tryLock acquires the lock. If QEMU is running without its data directory, tryLock leaves it alone, because everything
// that QEMU writes is lost when it ends.
func (s search) tryLock() (bool, error) {
	free, err := s.lock.Try()
	var lost *lock.LostError
	if !errors.As(err, &lost) {
		return free, err
	}
	found, fault := s.lockHolders()
	if fault != nil {
		return false, fault
	}
	qemu := holders.FindQEMU(found)
	if lost.PID = qemu.PID; qemu == (childprocess.ID{}) {
		return false, nil // its remains are ended
	}
	return false, lost
}

// findRemains returns the running machine. It returns nil if the holders of the lock never let their guest run,
// or outlived QEMU. If that isn't certain, it returns an error, because the caller ends the remains.
func (s search) findRemains(ctx context.Context) (*Remains, error) {
	dir, ran := record.Linked(s.vm.DataDir, s.vm.RuntimeDir)
	f := finding{search: s, dir: dir}
	if f.holders, f.err = s.lockHolders(); f.err != nil {
		return nil, f.err
	}
	if err := f.restoreMonitor(); err != nil {
		s.log.Warn("QEMU's monitor is not reached", "err", err)
	}
	r, there, err := record.Read(dir)
	if there && r.DataDir != s.vm.DataDir && !slices.Contains(f.holders, r.QEMU) {
		r, there = record.Machine{}, false // of another VM: not the same directory with another path
	}
	f.found = r
	path := filepath.Join(dir, prepare.RecordFile)
	switch {
	case err != nil:
		f.err = err
	case !there && ran:
		f.err = fmt.Errorf("its record %s is gone", path)
	case !there:
		return f.findUnrecorded(ctx)
	case r.CheckVersion(dir) != nil:
		f.err = r.CheckVersion(dir)
	default:
		qemu, err := childprocess.Adopt(r.QEMU, "qemu", s.log)
		if !errors.Is(err, os.ErrProcessDone) {
			return &Remains{record: r, dir: dir, qemu: qemu}, err
		}
		if f.findQEMU() == (childprocess.ID{}) {
			return nil, nil // the remains have outlived QEMU
		}
		f.err = fmt.Errorf("its record %s names process %d, which does not exist", path, r.QEMU.PID)
	}
	return f.rebuildRecord(ctx)
}

// lockHolders returns the processes that hold the lock of the machine.
func (s search) lockHolders() ([]childprocess.ID, error) {
	return holders.Of(filepath.Dir(s.lock.Path()), lock.MachineFile)
}

// endRemains ends the processes that hold the lock of the machine, and returns their number. Their guest has
// never run, or QEMU has ended without them.
func (s search) endRemains(ctx context.Context) (int, error) {
	found, err := s.lockHolders()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, remainsTime)
	defer cancel()
	for _, id := range found {
		left, err := childprocess.Adopt(id, "left process", s.log)
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
