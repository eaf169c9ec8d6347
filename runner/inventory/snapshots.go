package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vmop/runner/control"
	"vmop/runner/disks/snapshot"
)

// Snapshots returns the snapshots of a VM, the oldest first. The error lists snapshots that can't be read.
func (inv *Inventory) Snapshots(ctx context.Context, name string) ([]snapshot.Description, error) {
	vm, err := inv.placedVM(ctx, name)
	if err != nil {
		return nil, err
	}
	return snapshot.List(vm.DataDir)
}

// Snapshots returns the snapshots of the VM like [Inventory.Snapshots].
func (vm *VM) Snapshots() ([]snapshot.Description, error) {
	if vm.DataDir == "" {
		return nil, nil
	}
	return snapshot.List(vm.DataDir)
}

// CreateSnapshot creates a snapshot of a VM. An empty name is replaced by the time. For a running VM the runner
// creates the snapshot; if freeze is true and it is possible, the guest's file systems are frozen.
func (inv *Inventory) CreateSnapshot(
	ctx context.Context, name, called string, freeze bool, tell func(snapshot.Progress),
) (d snapshot.Description, err error) {
	vm, err := inv.placedVM(ctx, name)
	if err != nil {
		return d, err
	}
	now := time.Now()
	if called == "" {
		called = snapshot.DefaultName(now)
	}
	if err := snapshot.CheckName(called); err != nil {
		return d, err
	}
	if vm.Running() {
		client, err := vm.Dial(ctx)
		if err != nil {
			return d, err
		}
		_, err = client.Snapshot(ctx, called, freeze, func(p control.CopyProgress) { tell(snapshot.Progress(p)) })
		if err != nil {
			return d, err
		}
		return snapshot.Read(vm.DataDir, called)
	}
	release, err := vm.reserveVM()
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := snapshot.Recover(ctx, vm.DataDir); err != nil {
		return d, err
	}
	prepared, err := inv.preparedNow(ctx, vm)
	if err != nil {
		return d, err
	}
	return snapshot.Stopped(ctx, prepared, called, now, tell)
}

// RestoreSnapshot restores the disks of a stopped VM from a snapshot, and its configuration if withConfig is
// true.
func (inv *Inventory) RestoreSnapshot(
	ctx context.Context, name, called string, withConfig bool, tell func(snapshot.Progress),
) (err error) {
	vm, err := inv.placedVM(ctx, name)
	if err != nil {
		return err
	}
	release, err := vm.reserveStopped(fmt.Sprintf("restore the snapshot %s of %s", called, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := snapshot.Read(vm.DataDir, called); err != nil {
		return err
	}
	r := snapshot.Restore{DataDir: vm.DataDir, Snapshot: called, Progress: tell}
	text, err := vm.readText()
	if withConfig {
		r.Config = vm.File
		text, _, err = snapshot.Config(vm.DataDir, called)
	}
	if err != nil {
		return err
	}
	prepared, _, err := inv.prepareText(ctx, vm, text)
	if err != nil {
		return err
	}
	if r.Parts, err = snapshot.Parts(prepared); err != nil {
		return err
	}
	return r.Run(ctx)
}

// RemoveSnapshot removes a snapshot of a VM.
func (inv *Inventory) RemoveSnapshot(ctx context.Context, name, called string) (err error) {
	vm, err := inv.placedVM(ctx, name)
	if err != nil {
		return err
	}
	release, err := vm.reserveVM()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return snapshot.Remove(vm.DataDir, called)
}
