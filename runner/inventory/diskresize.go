package inventory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// ResizeDisk sets the size of a disk in the configuration, which keeps its comments. If the VM is running, ResizeDisk
// waits until its guest sees the new size; the disks of a stopped VM grow at the next start. If the disk can't grow,
// the configuration keeps the new size, because the disk grows as soon as it can.
func (inv *Inventory) ResizeDisk(ctx context.Context, r DiskRequest, disk string, size vmspec.Bytes) (
	c DiskChange, err error,
) {
	vm, err := inv.editableVM(ctx, r.VM)
	if err != nil {
		return c, err
	}
	drives := vm.Spec().Within(filepath.Dir(vm.File)).Drives
	i, d, err := vm.findDisk(drives, disk)
	if err != nil {
		return c, err
	}
	what := fmt.Sprintf("resize the disk %s of %s to %s", disk, vm.Name, size)
	if have := vm.diskOf(i, d).Size; int64(size) < have {
		return c, fmt.Errorf("%s: it has %s, and disks cannot shrink", what, vmspec.Bytes(have))
	}
	before, err := vm.readText()
	if err != nil {
		return c, err
	}
	text, err := SetInVM(before, size.String(), "drives", strconv.Itoa(i), "size")
	if err != nil {
		return c, err
	}
	after := vm.configurationGeneration()
	if c.Unchanged = string(text) == string(before); c.Unchanged {
		after = anyGeneration
	}
	review, err := inv.editAfter(ctx, vm.Name, before, text, r.warnFirst)
	if err != nil {
		return c, err
	}
	c.Running = review.Running
	running, later, err := vm.startedVM(ctx, c.Running, "enlarge")
	if c.Later = later; running != nil && err == nil {
		if err = vm.awaitSize(ctx, r, &c, running, i, d, size, after); err != nil {
			err = fmt.Errorf("%s: the new size is saved, but %w", what, err)
		}
	}
	c.Disk = vm.diskOf(i, d)
	return c, err
}

// warnFirst shows the warnings about a configuration before it is written.
func (r DiskRequest) warnFirst(review *Review) error {
	for _, text := range review.Warnings {
		r.Warn(text)
	}
	return nil
}

// awaitSize waits until the guest sees a new size of a disk. If that needs a restart, it sets c.Later to the reason.
func (vm *VM) awaitSize(
	ctx context.Context, r DiskRequest, c *DiskChange, running *prepare.VM, i int, d vmspec.Drive, size vmspec.Bytes,
	after int64,
) error {
	device, have := diskDevice(running, i, d), int64(0)
	switch attached := driveOf(vm.Status, d.Serial); {
	case device == "" && attached == nil:
		c.Later = "the VM type does not enlarge this disk while the guest is running"
		return nil
	case device != "" && d.Format != "raw":
		c.Later = "only raw images grow while the guest is running"
		return nil
	}
	enough := func(s *status.Status, state reconcile.BlockState) bool {
		have = state.Size
		if attached := driveOf(s, d.Serial); device == "" && attached != nil {
			have = attached.Capacity
		}
		return have >= int64(size)
	}
	err := vm.pollQEMU(ctx, r.Limit, after, device, enough, func(s *status.Status, _ reconcile.BlockState) string {
		return problemAt(s, fmt.Sprintf("vm.drives[%d].size", i), fmt.Sprintf("vm.drives[%d]", i))
	})
	if errors.Is(err, errLate) {
		err = fmt.Errorf("the guest's disk has %s after %s", vmspec.Bytes(have), r.Limit)
	}
	return err
}

// diskDevice returns QEMU's device for a disk that the VM was started with; "" for another disk, or if the disk can't
// be enlarged.
func diskDevice(running *prepare.VM, i int, d vmspec.Drive) string {
	started := running.Spec.Drives
	if i >= len(started) || started[i].Serial != d.Serial {
		return ""
	}
	at := slices.IndexFunc(running.Plan.Rules, func(rule plan.Rule) bool {
		disk, is := rule.(plan.Disk)
		return is && disk.Drive == i
	})
	if at < 0 {
		return ""
	}
	return running.Plan.Rules[at].(plan.Disk).Device
}
