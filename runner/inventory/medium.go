package inventory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A MediumRequest is a request to change the medium in a CD drive.
type MediumRequest struct {
	// VM is the name of the VM.
	VM string
	// Drive is the index of the CD drive in vm.drives.
	Drive int
	// File is the path or the URL of the medium; empty ejects the medium. A relative path begins at the folder of the
	// configuration.
	File string
	// Limit is the time for the guest of a running VM to open the tray.
	Limit time.Duration
	// Tell is called with the current step and what it waits for.
	Tell func(step, text string)
}

// A MediumChange is the result of a change of a medium.
type MediumChange struct {
	// Unchanged reports that the configuration already was as requested.
	Unchanged bool
	// Running reports whether the VM is running. Its drive contains the medium, unless Later gives the reason for a
	// delay.
	Running bool
	Later   string
	// Warnings about the configuration, for people.
	Warnings []string
}

// ErrTray reports that the guest keeps the tray of a CD drive closed. The medium is changed when the guest opens the
// tray.
var ErrTray = errors.New("the guest has locked the tray and was asked to open it; the medium changes when it does, or " +
	"when the VM is restarted")

// ChangeMedium sets the medium of a CD drive in the configuration of a VM. If the VM is running, it waits until the
// drive has the medium. If QEMU can't use the medium, ChangeMedium restores the configuration, and the error reports
// it. The error is ErrTray, and the configuration stays changed, if the guest doesn't open the tray in time.
func (inv *Inventory) ChangeMedium(ctx context.Context, r MediumRequest) (c MediumChange, err error) {
	vm, err := inv.editableVM(ctx, r.VM)
	if err != nil {
		return c, err
	}
	what, value := "eject the medium of "+vm.Name, "null"
	if r.File != "" {
		bare, _, _ := vmspec.Credentials(r.File)
		what, value = fmt.Sprintf("insert %s into %s", bare, vm.Name), quoteYAML(r.File)
	}
	before, err := vm.readText()
	if err != nil {
		return c, err
	}
	text := before
	drives := vm.Spec().Within(filepath.Dir(vm.File)).Drives
	if r.Drive >= len(drives) || drives[r.Drive].Type != vmspec.DriveIDECD {
		return c, fmt.Errorf("%s: vm.drives[%d] is not a CD drive", what, r.Drive)
	}
	r.File = vmspec.Within(filepath.Dir(vm.File), r.File)
	if drives[r.Drive].File != r.File {
		if text, err = SetInVM(before, value, "drives", strconv.Itoa(r.Drive), "file"); err != nil {
			return c, fmt.Errorf("%s: %w", what, err)
		}
	}
	after := vm.configurationGeneration()
	if c.Unchanged = string(text) == string(before); c.Unchanged {
		after = anyGeneration
	}
	review, err := inv.editAfter(ctx, vm.Name, before, text, func(review *Review) error {
		if review.desired == nil || review.desired.Denied[r.Drive] == "" {
			return nil
		}
		return fmt.Errorf("%s: %s; the configuration is unchanged", what, review.desired.Denied[r.Drive])
	})
	if err != nil {
		return c, err
	}
	c.Running, c.Warnings = review.Running, review.Warnings
	running, later, err := vm.startedVM(ctx, c.Running, "change")
	if c.Later = later; running == nil || err != nil {
		return c, err
	}
	if c.Later = review.laterMedium(r.Drive); c.Later != "" {
		return c, nil
	}
	if err = vm.awaitMedium(ctx, r, running, after); err != nil {
		err = fmt.Errorf("%s: %w", what, err)
		if !c.Unchanged && !errors.Is(err, ErrTray) && ctx.Err() == nil {
			err = fmt.Errorf("%w; %s", err, vm.putBack(ctx, text, before))
		}
	}
	return c, err
}

// laterMedium returns the reason why the medium of a running VM changes only at its next start; "" if it changes now.
func (r *Review) laterMedium(drive int) string {
	if r.desired != nil && r.desired.Media == nil {
		return "the VM was started with other drives"
	}
	for _, change := range r.Later {
		if strings.HasPrefix(change.Path+".", fmt.Sprintf("vm.drives[%d].", drive)) {
			return change.Path + " changes at the next start"
		}
	}
	return ""
}

// awaitMedium waits until a CD drive contains the medium of a configuration newer than a generation.
func (vm *VM) awaitMedium(ctx context.Context, r MediumRequest, running *prepare.VM, after int64) error {
	device, locked := mediumDevice(running, r.Drive), false
	serial := vm.Spec().Drives[r.Drive].Serial
	bare, _, _ := vmspec.Credentials(r.File)
	since := time.Now() // of an attached drive
	enough := func(s *status.Status, state reconcile.BlockState) bool {
		if locked = state.Locked; locked {
			r.Tell("medium", "waiting for the guest to open the tray")
		}
		if device != "" {
			return state.File == bare
		}
		// A drive that was attached while the guest is running is detached, and attached with the new medium.
		d := driveOf(s, serial)
		if d == nil || d.State != status.DriveAttached {
			since = time.Now()
			return d == nil && r.File == ""
		}
		return time.Since(since) > lastingTime
	}
	err := vm.pollQEMU(ctx, r.Limit, after, device, enough, func(s *status.Status, state reconcile.BlockState) string {
		if state.Locked {
			return "" // the guest may open the tray
		}
		return problemAt(s, fmt.Sprintf("vm.drives[%d].file", r.Drive), fmt.Sprintf("vm.drives[%d]", r.Drive))
	})
	switch {
	case errors.Is(err, errLate) && locked:
		return ErrTray
	case errors.Is(err, errLate):
		return fmt.Errorf("the medium was not changed within %s", r.Limit)
	}
	return err
}

// mediumDevice returns QEMU's device for a CD drive that the VM was started with; "" for another drive.
func mediumDevice(running *prepare.VM, drive int) string {
	for _, rule := range running.Plan.Rules {
		if m, is := rule.(plan.Medium); is && m.Drive == drive {
			return m.Device
		}
	}
	return ""
}
