package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"vmop/durable"
	"vmop/regular"
	"vmop/runner/config"
	"vmop/runner/follow"
	"vmop/runner/prepare"
	"vmop/runner/record"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/yamlfile"
)

// ErrChanged says that a configuration was changed by another program or user meanwhile.
var ErrChanged = errors.New("the configuration has been changed meanwhile")

// A Review says what a configuration without faults would do.
type Review struct {
	// Warnings about it, for people: files of drives that are missing, for example.
	Warnings []string
	// Running says that the VM runs. Now are the changes that it takes over at once,
	// Later those that await a restart; both are empty if it does not run, or if its
	// runner is another user's.
	Running    bool
	Now, Later []status.Change
	// Plan is that of the next start.
	Plan *plan.Plan
	// Leftover are the data of a deleted VM that a new VM of its name would get; nil: there are none.
	Leftover *Leftover
	// absent are faults of files, at their places in the text: what a start would refuse.
	absent error
}

// Text returns a VM's configuration as it is on the disk, faults included.
func (inv *Inventory) Text(ctx context.Context, name string) ([]byte, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return vm.text()
}

func (vm *VM) text() ([]byte, error) {
	if vm.File == "" {
		return nil, fmt.Errorf("the configuration of %s is not known", vm.Name)
	}
	text, err := regular.ReadFile(vm.File, yamlfile.LargestFile)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", vm.Name, err)
	}
	return text, nil
}

// Review checks a new text for the configuration of a VM, as a start would: its content,
// its VM type, the policy. The error is what is wrong: of type yamlfile.Faults, with
// places in the text, vmtypes.FaultsError or policy.Error.
func (inv *Inventory) Review(ctx context.Context, name string, text []byte) (*Review, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return inv.review(ctx, vm, text)
}

func (inv *Inventory) review(ctx context.Context, vm *VM, text []byte) (*Review, error) {
	r, err := inv.check(ctx, vm, text)
	if err != nil {
		return nil, err
	}
	if r.absent != nil {
		r.Warnings = append(r.Warnings, r.absent.Error())
	}
	r.Running = vm.Running()
	running, err := vm.started(ctx)
	if running == nil || err != nil {
		return r, err
	}
	cfg, _, err := config.Parse(vm.File, text)
	if err == nil && vm.Place != nil {
		err = vm.settle(cfg)
	}
	if err != nil {
		return nil, err
	}
	r.Now, r.Later, err = follow.Forecast(ctx, inv.opts.Prepare, running, cfg)
	return r, err
}

// started returns a VM as it was started; nil if it doesn't run, or if its runner is another user's.
func (vm *VM) started(ctx context.Context) (*prepare.VM, error) {
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

// Edit gives a VM's configuration another text, after a review. before is the text that
// was edited; the error is ErrChanged if the file has another one by now. A VM that runs
// takes over what it can.
func (inv *Inventory) Edit(ctx context.Context, name string, before, text []byte) (*Review, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	review, err := inv.review(ctx, vm, text)
	if err != nil {
		return nil, err
	}
	now, err := vm.text()
	switch {
	case err != nil:
		return nil, err
	case !bytes.Equal(now, before):
		return nil, fmt.Errorf("edit %s: %w", vm.File, ErrChanged)
	case bytes.Equal(now, text):
		return review, nil
	}
	return review, durable.Rewrite(vm.File, text)
}

// check wants a text to be a configuration by which a VM could be started. It returns warnings about it, the plan
// of that start, and faults of files.
func (inv *Inventory) check(ctx context.Context, vm *VM, text []byte) (*Review, error) {
	prepared, found, err := inv.prepared(ctx, vm, text)
	if err != nil {
		return nil, err
	}
	r := &Review{Plan: prepared.Plan}
	for _, w := range found {
		r.Warnings = append(r.Warnings, w.String())
	}
	if open := prepared.Unprotected(); open != "" {
		r.Warnings = append(r.Warnings, open)
	}
	faults, err := prepared.StartFaults()
	if err != nil {
		return nil, err
	}
	r.absent = prepared.Config.Locate(append(faults, sourceFaults(prepared.Spec.Drives)...))
	return r, nil
}

// prepared returns the VM that a text describes, with the plan of its start.
func (inv *Inventory) prepared(ctx context.Context, vm *VM, text []byte) (*prepare.VM, []yamlfile.Warning, error) {
	cfg, found, err := config.Parse(vm.File, text)
	if err != nil {
		return nil, nil, err
	}
	if vm.Place != nil {
		if err := isNamed(cfg, vm.Name); err != nil {
			return nil, nil, err
		}
		if err := vm.settle(cfg); err != nil {
			return nil, nil, err
		}
	}
	prepared, err := prepare.New(cfg, vm.File)
	if err != nil {
		return nil, nil, err
	}
	return prepared, found, prepared.Locate(prepared.Complete(ctx, inv.opts.Prepare, false))
}

// Plan returns the plan of a VM: the one that it was started by, or would be started by.
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
	prepared, err := inv.would(ctx, vm)
	if err != nil {
		return nil, err
	}
	return prepared.Plan, nil
}

// Source returns a module of the type of a VM, as the origins of its plan name it.
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
	prepared, err := inv.would(ctx, vm)
	if err != nil {
		return "", err
	}
	text, found := vmtypes.ArchivedModule(prepared.Pin.Archive, module)
	if !found {
		return "", fmt.Errorf("%w: the VM type has no module %q", ErrUnknown, module)
	}
	return string(text), nil
}

// would returns a VM as it would be started now.
func (inv *Inventory) would(ctx context.Context, vm *VM) (*prepare.VM, error) {
	text, err := vm.text()
	if err != nil {
		return nil, err
	}
	prepared, _, err := inv.prepared(ctx, vm, text)
	return prepared, err
}

// settle gives a configuration the directories that a runner of its place would take.
func (vm *VM) settle(cfg *config.Config) (err error) {
	cfg.RuntimeDir = cfg.RuntimeDirectory(vm.Place.Env)
	cfg.DataDir, err = cfg.DataDirectory(vm.Place.Env)
	return err
}

// locate notes where a configuration puts the VM.
func (vm *VM) locate(cfg *config.Config) error {
	folder := filepath.Dir(vm.File)
	vm.RuntimeDir = vmspec.Within(folder, cfg.RuntimeDirectory(vm.Place.Env))
	dir, err := cfg.DataDirectory(vm.Place.Env)
	if err != nil {
		return err
	}
	vm.DataDir = vmspec.Within(folder, dir)
	return nil
}
