package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"vmop/runner/control"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// anyGeneration precedes all configurations that a runner has read.
const anyGeneration = -1

// configurationGeneration returns the generation of the configuration that the VM's runner has read last.
func (vm *VM) configurationGeneration() int64 {
	if vm.Status == nil {
		return anyGeneration
	}
	return vm.Status.Configuration.Generation
}

// refusedError reports that a runner refuses a configuration.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return "the runner refuses the configuration: " + e.message }

// awaitAttached waits until the guest has received a disk from a configuration newer than a generation. If that needs
// a restart, it sets c.Later to the reason.
func (vm *VM) awaitAttached(ctx context.Context, r DiskRequest, c *DiskChange, what string, after int64) error {
	running, later, err := vm.startedVM(ctx, c.Running, "attach")
	c.Later = later
	switch {
	case running == nil:
		return err
	case startedWith(running, c.Disk.Name):
		if !c.Unchanged {
			c.Later = "the VM was started with another disk with this serial number; the disk is available after a restart of the VM"
		}
		return nil
	case countPlaces(running) == 0:
		c.Later = "the VM type has no places for disks attached while the guest runs; the disk is available after a " +
			"restart of the VM"
		return nil
	}
	last := "the runner has not begun"
	err = vm.followRunner(ctx, r.Limit, after, func(s *status.Status) (bool, error) {
		d := driveOf(s, c.Disk.Name)
		switch {
		case d == nil:
			return false, nil
		case d.State == status.DriveFailed && countTaken(s) >= countPlaces(running):
			c.Later = d.Message
			return true, nil
		case d.State == status.DriveFailed:
			return false, errors.New(d.Message)
		}
		last = "attaching the disk"
		if d.Message != "" {
			last = d.Message
		}
		r.Tell("disk", last)
		return d.State == status.DriveAttached, nil
	})
	if errors.Is(err, errLate) {
		err = fmt.Errorf("the guest has not received it within %s: %s", r.Limit, last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// awaitDetached waits until the guest has released a disk.
func (vm *VM) awaitDetached(ctx context.Context, r DiskRequest, c *DiskChange, what string, after int64) error {
	running, later, err := vm.startedVM(ctx, c.Running, "detach")
	c.Later = later
	switch {
	case running == nil:
		return err
	case startedWith(running, c.Disk.Name):
		c.Later = "the VM was started with the disk, and has it until it is restarted"
		return nil
	}
	last := "the runner has not begun"
	err = vm.followRunner(ctx, r.Limit, after, func(s *status.Status) (bool, error) {
		d := driveOf(s, c.Disk.Name)
		if d == nil {
			return true, nil
		}
		if d.Message != "" {
			last = d.Message
		}
		r.Tell("disk", last)
		return false, nil
	})
	if errors.Is(err, errLate) {
		err = fmt.Errorf("it is still attached after %s: %s. It is detached when that is over, or when the VM stops: is it in "+
			"use in the guest? To keep it, attach it again", r.Limit, last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// startedVM returns a VM, as it was started, if its runner can attach or detach a device. It returns nil if there is no
// need to wait; later may contain the reason.
func (vm *VM) startedVM(ctx context.Context, isRunning bool, what string) (
	running *prepare.VM, later string, err error,
) {
	if !isRunning {
		return nil, "", nil
	}
	running, err = vm.preparedAtStart(ctx)
	if running == nil && err == nil {
		later = "there is no runner that could " + what + " it now"
		if vm.Problem != "" {
			later += ": " + vm.Problem
		}
	}
	return running, later, err
}

// errLate reports that the time limit is exceeded.
var errLate = errors.New("too late")

// followRunner passes the runner's statuses to enough until it returns true. It skips statuses with a configuration up
// to generation after. The error is errLate after the limit, or a *refusedError.
func (vm *VM) followRunner(
	ctx context.Context, limit time.Duration, after int64, enough func(*status.Status) (bool, error),
) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	client, err := vm.Dial(limited)
	var events *control.Events
	if err == nil {
		events, err = client.Events(limited, control.TypeStatus)
	}
	switch {
	case err != nil && limited.Err() != nil:
		return context.Cause(limited)
	case err != nil:
		return err
	}
	defer events.Close()
	for {
		e, err := events.Next()
		switch {
		case err != nil && limited.Err() != nil:
			return context.Cause(limited)
		case err != nil:
			return fmt.Errorf("the runner has ended in the meantime: %w", err)
		case e.Status == nil:
			continue
		}
		if newer, err := isNewer(e.Status, after); err != nil || !newer {
			if err != nil {
				return err
			}
			continue
		}
		if done, err := enough(e.Status); done || err != nil {
			return err
		}
	}
}

// isNewer reports whether a status has a configuration newer than a generation. The error reports that the VM has
// stopped, or is a *refusedError.
func isNewer(s *status.Status, after int64) (bool, error) {
	switch {
	case s.Configuration.Generation <= after:
		return false, nil
	case s.State == vmstatus.StateStopped:
		return false, errors.New("the VM has stopped meanwhile")
	case s.Configuration.Error != "":
		return false, &refusedError{s.Configuration.Error}
	}
	return true, nil
}

// pollTime is the interval between two questions of pollQEMU. A problem counts after lastingTime, because rules also
// report problems that end with their next attempt.
const pollTime, lastingTime = 50 * time.Millisecond, time.Second

// pollQEMU passes the runner's status, and the state of a disk or CD drive in QEMU, to enough until it returns true.
// It skips statuses with a configuration up to generation after. Without a device, the state is empty. problemOf
// returns the problem that prevents the change; pollQEMU returns it as an error if it lasts. The error is errLate
// after the limit, or a *refusedError.
func (vm *VM) pollQEMU(
	ctx context.Context, limit time.Duration, after int64, device string,
	enough func(*status.Status, reconcile.BlockState) bool,
	problemOf func(*status.Status, reconcile.BlockState) string,
) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	client, err := vm.Dial(limited)
	problem, since := "", time.Now()
	for ; err == nil; err = waitOrEnd(limited, pollTime) {
		s, err := client.Status(limited)
		if err != nil {
			return causeOfLimit(limited, fmt.Errorf("the runner has ended in the meantime: %w", err))
		}
		if newer, err := isNewer(&s, after); err != nil {
			return err
		} else if !newer {
			continue
		}
		var state reconcile.BlockState
		if device != "" {
			question, read := reconcile.BlockOf(device)
			answer, err := client.QMP(limited, question)
			if err == nil {
				state, err = read(answer)
			}
			if err != nil {
				return causeOfLimit(limited, err)
			}
		}
		if enough(&s, state) {
			return nil
		}
		if now := problemOf(&s, state); now != problem {
			problem, since = now, time.Now()
		}
		if problem != "" && time.Since(since) > lastingTime {
			return errors.New(problem)
		}
	}
	return causeOfLimit(limited, err)
}

func waitOrEnd(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// causeOfLimit returns the reason why a context has ended, or err if it hasn't.
func causeOfLimit(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// problemAt returns the runner's problem with one of the paths; "" if it has none.
func problemAt(s *status.Status, paths ...string) string {
	for _, p := range s.Problems {
		if slices.Contains(paths, p.Path) {
			return p.Message
		}
	}
	return ""
}

// countPlaces returns the number of disks that can be attached to a running machine.
func countPlaces(running *prepare.VM) (n int) {
	for _, rule := range running.Plan.Rules {
		if disks, is := rule.(plan.Disks); is {
			n = len(disks.Buses)
		}
	}
	return n
}

// countTaken returns the number of occupied places for disks.
func countTaken(s *status.Status) int {
	return len(slices.DeleteFunc(slices.Clone(s.Drives), func(d status.Drive) bool {
		return d.State != status.DriveAttached && d.State != status.DriveDetaching
	}))
}
