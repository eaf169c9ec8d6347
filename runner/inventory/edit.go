package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/config/follow"
	"vmop/runner/disks"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// ErrChanged reports that another program or user has changed the configuration in the meantime.
var ErrChanged = errors.New("the configuration has been changed meanwhile")

// A Review describes the effects of a valid configuration.
type Review struct {
	// Warnings about it, for people, for example missing files of drives.
	Warnings []string
	// Running reports whether the VM is running. Now are the changes that it applies immediately, Later the
	// changes that need a restart. Both are empty if the VM isn't running, or its runner belongs to another user.
	Running    bool
	Now, Later []status.Change
	// Plan is the plan of the next start.
	Plan *plan.Plan
	// Leftover is the data of a deleted VM that a new VM with its name would get; nil if there is no such data.
	Leftover *Leftover
	// desired is what the running VM would be asked for; nil if it isn't running.
	desired *reconcile.Desired
	// absent contains errors about files, with their places in the text: a start would fail with them.
	absent error
}

// Text returns a VM's configuration as stored on the disk, even if it is invalid.
func (inv *Inventory) Text(ctx context.Context, name string) ([]byte, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return vm.readText()
}

func (vm *VM) readText() ([]byte, error) {
	if vm.File == "" {
		return nil, fmt.Errorf("the configuration of %s is not known", vm.Name)
	}
	text, err := readfile.ReadFile(vm.File, yamlfile.LargestFile)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", vm.Name, err)
	}
	return text, nil
}

// Review checks a new text for the configuration of a VM, like a start: its content, its VM type, the policy. The
// error describes what is invalid. It is of type yamlfile.Faults, with places in the text, vmtypes.FaultsError or
// policy.Error.
func (inv *Inventory) Review(ctx context.Context, name string, text []byte) (*Review, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return inv.reviewText(ctx, vm, text)
}

func (inv *Inventory) reviewText(ctx context.Context, vm *VM, text []byte) (*Review, error) {
	r, err := inv.checkText(ctx, vm, text)
	if err != nil {
		return nil, err
	}
	if r.absent != nil {
		r.Warnings = append(r.Warnings, r.absent.Error())
	}
	r.Running = vm.Running()
	running, err := vm.preparedAtStart(ctx)
	if running == nil || err != nil {
		return r, err
	}
	cfg, _, err := config.Parse(vm.File, text)
	if err == nil && vm.Place != nil {
		err = vm.settleDirectories(cfg)
	}
	if err != nil {
		return nil, err
	}
	if r.Now, r.Later, err = follow.Forecast(ctx, inv.opts.Prepare, running, cfg); err != nil {
		return nil, err
	}
	wanted, err := running.Renewed(ctx, cfg)
	if err != nil {
		return nil, err
	}
	desired := wanted.Desired(running)
	r.desired = &desired
	for _, i := range slices.Sorted(maps.Keys(desired.Denied)) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("vm.drives[%d].file: %s", i, desired.Denied[i]))
	}
	return r, nil
}

// preparedAtStart returns a VM as it was started; nil if it isn't running, or if its runner belongs to another user.
func (vm *VM) preparedAtStart(ctx context.Context) (*prepare.VM, error) {
	started, there, err := record.Read(vm.RuntimeDir)
	if vm.Status == nil || err != nil || !there {
		return nil, nil
	}
	running, err := started.VM(ctx, vm.RuntimeDir)
	if err != nil {
		return nil, fmt.Errorf("what the running VM would do: %w", err)
	}
	return running, nil
}

// Edit replaces a VM's configuration after a review. before is the text that was edited; the error is ErrChanged
// if the file has another text by now. A running VM applies the changes that it can.
func (inv *Inventory) Edit(ctx context.Context, name string, before, text []byte) (*Review, error) {
	return inv.editAfter(ctx, name, before, text, func(*Review) error { return nil })
}

// editAfter is like Edit, but doesn't write if approve refuses the review.
func (inv *Inventory) editAfter(
	ctx context.Context, name string, before, text []byte, approve func(*Review) error,
) (*Review, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	review, err := inv.reviewText(ctx, vm, text)
	if err == nil {
		err = approve(review)
	}
	if err != nil {
		return nil, err
	}
	now, err := vm.readText()
	switch {
	case err != nil:
		return nil, err
	case !bytes.Equal(now, before):
		return nil, fmt.Errorf("edit %s: %w", vm.File, ErrChanged)
	case bytes.Equal(now, text):
		return review, nil
	}
	return review, atomicfile.Rewrite(vm.File, text)
}

// checkText checks that a VM could be started with the configuration in text. It returns warnings, the plan of that
// start, and errors about files.
func (inv *Inventory) checkText(ctx context.Context, vm *VM, text []byte) (*Review, error) {
	prepared, found, err := inv.prepareText(ctx, vm, text)
	if err != nil {
		return nil, err
	}
	r := &Review{Plan: prepared.Plan}
	for _, w := range found {
		r.Warnings = append(r.Warnings, w.String())
	}
	r.Warnings = append(r.Warnings, prepared.OptionWarnings()...)
	if open := prepared.Unprotected(); open != "" {
		r.Warnings = append(r.Warnings, open)
	}
	r.Warnings = append(r.Warnings, disks.LackOfRoom(prepared.Spec.Drives)...)
	faults, err := prepared.StartFaults()
	if err != nil {
		return nil, err
	}
	r.absent = prepared.Config.Locate(append(faults, sourceFaults(prepared.Spec.Drives)...))
	return r, nil
}

// prepareText returns the VM that a text describes, with the plan of its start.
func (inv *Inventory) prepareText(ctx context.Context, vm *VM, text []byte) (*prepare.VM, []yamlfile.Warning, error) {
	cfg, found, err := config.Parse(vm.File, text)
	if err != nil {
		return nil, nil, err
	}
	if vm.Place != nil {
		if err := isNamed(cfg, vm.Name); err != nil {
			return nil, nil, err
		}
		if err := vm.settleDirectories(cfg); err != nil {
			return nil, nil, err
		}
	}
	prepared, err := prepare.New(cfg, vm.File)
	if err != nil {
		return nil, nil, err
	}
	return prepared, found, prepared.Locate(prepared.Complete(ctx, inv.opts.Prepare, false))
}

// Plan returns the plan of a VM's last start if it is running, otherwise of its next start.
func (inv *Inventory) Plan(ctx context.Context, name string) (*plan.Plan, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if vm.Status != nil {
		client, err := vm.Dial(ctx)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := client.Plan(ctx, &text, "json"); err != nil {
			return nil, err
		}
		var started plan.Plan
		if err := json.Unmarshal(text.Bytes(), &started); err != nil {
			return nil, fmt.Errorf("read the plan of %s: %w", name, err)
		}
		return &started, nil
	}
	prepared, err := inv.preparedNow(ctx, vm)
	if err != nil {
		return nil, err
	}
	return prepared.Plan, nil
}

// Source returns a module of a VM's type. The origins in the VM's plan name the modules.
func (inv *Inventory) Source(ctx context.Context, name, module string) (string, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return "", err
	}
	if vm.Status != nil {
		client, err := vm.Dial(ctx)
		if err != nil {
			return "", err
		}
		return client.Source(ctx, module)
	}
	prepared, err := inv.preparedNow(ctx, vm)
	if err != nil {
		return "", err
	}
	text, found := vmtypes.ArchivedModule(prepared.Pin.Archive, module)
	if !found {
		return "", fmt.Errorf("%w: the VM type has no module %q", ErrUnknown, module)
	}
	return string(text), nil
}

// preparedNow returns a VM as it would be started now.
func (inv *Inventory) preparedNow(ctx context.Context, vm *VM) (*prepare.VM, error) {
	text, err := vm.readText()
	if err != nil {
		return nil, err
	}
	prepared, _, err := inv.prepareText(ctx, vm, text)
	return prepared, err
}

// settleDirectories sets the directories that a runner in the VM's place would use.
func (vm *VM) settleDirectories(cfg *config.Config) (err error) {
	cfg.RuntimeDir = cfg.RuntimeDirectory(vm.Place.Env)
	cfg.DataDir, err = cfg.DataDirectory(vm.Place.Env)
	return err
}

// locateVM sets the VM's directories from a configuration.
func (vm *VM) locateVM(cfg *config.Config) error {
	folder := filepath.Dir(vm.File)
	vm.RuntimeDir = vmspec.Within(folder, cfg.RuntimeDirectory(vm.Place.Env))
	dir, err := cfg.DataDirectory(vm.Place.Env)
	if err != nil {
		return err
	}
	vm.DataDir = vmspec.Within(folder, dir)
	return nil
}
