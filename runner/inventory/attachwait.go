package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"vmop/runner/control"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// anyGeneration is before all configurations that a runner has read.
const anyGeneration = -1

// generation is that of the configuration that a VM's runner has read last.
func (vm *VM) generation() int64 {
	if vm.Status == nil {
		return anyGeneration
	}
	return vm.Status.Configuration.Generation
}

// refusedError says that a runner doesn't take a configuration.
type refusedError struct{ message string }

func (e *refusedError) Error() string { return "the runner refuses the configuration: " + e.message }

// attached waits until the guest has a disk by a configuration that was read after a generation, or notes why that
// takes a restart.
func (vm *VM) attached(ctx context.Context, r DiskRequest, c *DiskChange, what string, after int64) error {
	running, err := vm.awaited(ctx, c, "attach")
	switch {
	case running == nil:
		return err
	case startedWith(running, c.Disk.Name):
		if !c.Unchanged {
			c.Later = "the VM was started with another disk of this serial number; the disk is there after a restart of the VM"
		}
		return nil
	case places(running) == 0:
		c.Later = "the VM type has no places for disks that are attached while the guest runs; the disk is there after a " +
			"restart of the VM"
		return nil
	}
	last := "the runner has not begun"
	err = vm.follow(ctx, r, after, func(s *status.Status) (bool, error) {
		d := driveOf(s, c.Disk.Name)
		switch {
		case d == nil:
			return false, nil
		case d.State == status.DriveFailed && taken(s) >= places(running):
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
		err = fmt.Errorf("the guest has not got it within %s: %s", r.Limit, last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// detached waits until the guest has let go of a disk.
func (vm *VM) detached(ctx context.Context, r DiskRequest, c *DiskChange, what string, after int64) error {
	running, err := vm.awaited(ctx, c, "detach")
	switch {
	case running == nil:
		return err
	case startedWith(running, c.Disk.Name):
		c.Later = "the VM was started with the disk, and has it until it is restarted"
		return nil
	}
	last := "the runner has not begun"
	err = vm.follow(ctx, r, after, func(s *status.Status) (bool, error) {
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
		err = fmt.Errorf("it is still there after %s: %s. It goes as soon as that is over, or when the VM stops: is it in "+
			"use in the guest? To keep it, attach it again", r.Limit, last)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// awaited returns the VM, as it was started, that a runner is to attach a disk to or detach one from; nil if that
// isn't to be waited for, of which c.Later says why.
func (vm *VM) awaited(ctx context.Context, c *DiskChange, what string) (*prepare.VM, error) {
	if !c.Running {
		return nil, nil
	}
	running, err := vm.started(ctx)
	if running == nil && err == nil {
		c.Later = "there is no runner that could " + what + " it now"
		if vm.Problem != "" {
			c.Later += ": " + vm.Problem
		}
	}
	return running, err
}

// errLate says that the time is over in which something was to happen.
var errLate = errors.New("too late")

// follow passes on what a runner reports with a configuration that was read after a generation, until that is
// enough. The error is errLate after the limit of the request, or a *refusedError.
func (vm *VM) follow(
	ctx context.Context, r DiskRequest, after int64, enough func(*status.Status) (bool, error),
) error {
	limited, cancel := context.WithTimeoutCause(ctx, r.Limit, errLate)
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
			return fmt.Errorf("the runner has ended meanwhile: %w", err)
		case e.Status == nil || e.Status.Configuration.Generation <= after:
			continue
		case e.Status.State == vmstatus.StateStopped:
			return errors.New("the VM has stopped meanwhile")
		case e.Status.Configuration.Error != "":
			return &refusedError{e.Status.Configuration.Error}
		}
		if done, err := enough(e.Status); done || err != nil {
			return err
		}
	}
}

// places is how many disks can be attached to a machine while it runs.
func places(running *prepare.VM) (n int) {
	for _, rule := range running.Plan.Rules {
		if disks, is := rule.(plan.Disks); is {
			n = len(disks.Buses)
		}
	}
	return n
}

// taken is how many of the places for disks are taken.
func taken(s *status.Status) int {
	return len(slices.DeleteFunc(slices.Clone(s.Drives), func(d status.Drive) bool {
		return d.State != status.DriveAttached && d.State != status.DriveDetaching
	}))
}
