package follow

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"

	"vmop/runner/changes"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// evaluation has the VM types evaluated that matter to a new configuration, in a
// process of their own if they are not the program's: the running VM must not wait
// for a type that does not end, or takes all memory.
type evaluation struct {
	*Config
	group   *evaluate.Group
	running *evaluate.Member                         // the type of the running VM
	other   func() (*evaluate.Member, string, error) // of wantedType, once it was called
}

// evaluation begins one, which must be closed. It ends with ctx.
func (c *Config) evaluation(ctx context.Context) *evaluation {
	group := evaluate.NewGroup(ctx)
	return &evaluation{Config: c, group: group, running: group.AddKept(c.Running.Pin.Archive)}
}

func (e *evaluation) close() { e.group.Close() }

// pendingChanges returns what of the wanted VM awaits a restart.
func (e *evaluation) pendingChanges(ctx context.Context, wanted *prepare.VM) (list status.Pending, err error) {
	running := comparable(e.Running, e.running.Name())
	types := map[string]*evaluate.Member{running.VMType: e.running}
	next := comparable(wanted, running.VMType)
	if e.takesOtherType(wanted) {
		other, text, err := e.wantedType(wanted)
		if err != nil {
			return list, err
		}
		next.VMType = text
		if types[text] == nil {
			types[text] = other
		}
	}
	start := e.Running.Host()
	launch := func(ctx context.Context, x changes.Machine) (*plan.Plan, error) {
		host := prepare.ThisHost(x.DataDir, x.RuntimeDir)
		host.Topology = start.Topology // what is free changes all the time, and no restart is due to that
		host.HasDisplayPassword, host.Files = x.DisplayPassword, wanted.OptionFiles()
		host.Machines = e.Running.Pin.Machines
		if x.CloudInit != "" {
			host.CloudInitImage = filepath.Join(x.RuntimeDir, prepare.CloudInitImage)
		}
		if x.Sysprep != "" {
			host.SysprepImage = filepath.Join(x.RuntimeDir, prepare.SysprepImage)
		}
		return types[x.VMType].Launch(ctx, x.VM, host)
	}
	live := changes.Live(e.Running.Plan.Rules, wanted.Spec, wanted.Attached(e.Running)...)
	pending, err := changes.Pending(ctx, launch, running, next, live)
	of := wanted.Config
	if of.CloudInit == nil {
		of = e.Running.Config // the data are left out from now on
	}
	for i := range pending.Changes {
		if c := &pending.Changes[i]; c.Path == "cloudInit" {
			c.Path = of.DataPath()
		}
	}
	return pending, err
}

// takesOtherType reports whether a restart may take another type than the VM runs
// with.
func (c *Config) takesOtherType(wanted *prepare.VM) bool {
	return wanted.Config.UpdateVMType || wanted.Config.VMType != c.Running.Config.VMType
}

// wantedType loads the type that a restart would take, and names it: the same
// modules have the same name. An evaluation has one wanted type.
func (e *evaluation) wantedType(wanted *prepare.VM) (other *evaluate.Member, text string, err error) {
	if e.other == nil {
		other, text, err = e.loadType(wanted)
		e.other = func() (*evaluate.Member, string, error) { return other, text, err }
	}
	return e.other()
}

func (e *evaluation) loadType(wanted *prepare.VM) (other *evaluate.Member, text string, err error) {
	found, err := evaluate.Find(e.Options.VMTypes, wanted.Config.VMType)
	if err != nil {
		return nil, "", err
	}
	if other, err = e.group.Add(found); err != nil {
		return nil, "", err
	}
	archive, err := other.Archive()
	if err != nil {
		return nil, "", err
	}
	if string(archive) == string(e.Running.Pin.Archive) {
		return other, other.Name(), nil
	}
	return other, fmt.Sprintf("%s (%.4x)", other.Name(), sha256.Sum256(archive)), nil
}

// comparable returns what of a VM matters for its plan.
func comparable(vm *prepare.VM, vmType string) changes.Machine {
	return changes.Machine{
		DataDir: vm.DataDir, RuntimeDir: vm.RuntimeDir, VMType: vmType,
		CloudInit: vm.CloudInit(), Sysprep: vm.Facts.Sysprep, DisplayPassword: vm.Protected, VM: vm.Spec.WithoutNBD(),
		NBDCertificates: vm.NBDCertificates(),
	}
}

// check wants a new configuration to be one that could be taken: its options are
// what the type takes that a restart would take, and what it changes while the VM
// runs is allowed.
func (e *evaluation) check(ctx context.Context, wanted *prepare.VM) error {
	if !e.takesOtherType(wanted) {
		if err := wanted.Locate(e.running.CheckOptions(wanted.Spec, wanted.OptionFiles())); err != nil {
			return err
		}
	} else if other, _, err := e.wantedType(wanted); err == nil { // pendingChanges reports its fault
		var faults *vmtypes.OptionsError
		if err := other.CheckOptions(wanted.Spec, wanted.OptionFiles()); errors.As(err, &faults) {
			return wanted.Locate(err)
		}
	}
	if err := e.checkFormats(wanted); err != nil {
		return err
	}
	return e.checkPolicy(ctx, wanted)
}

// checkFormats refuses a disk that the guest would get as raw and that is an image of another format.
func (e *evaluation) checkFormats(wanted *prepare.VM) error {
	origins, err := prepare.ReadOrigins(e.Running.DataDir)
	if err != nil {
		return err
	}
	return wanted.Config.Locate(prepare.WrongFormats(wanted.Spec.Drives, origins, e.Running.DataDir))
}

// checkPolicy wants the plan that the running type makes of a new configuration to
// be allowed: a medium, for one, is changed while the VM runs. What cannot be
// evaluated is denied, or a type that fails would be a way round the policy.
func (e *evaluation) checkPolicy(ctx context.Context, wanted *prepare.VM) error {
	if e.Options.Policy == nil {
		return e.PolicyFault
	}
	made, err := e.running.Launch(ctx, wanted.Spec, e.Running.Host())
	var faults *vmtypes.FaultsError
	if err != nil && !errors.As(err, &faults) {
		return fmt.Errorf("whether the policy for VM types allows it cannot be evaluated: %w", err)
	}
	return e.Running.Judge(ctx, e.Options, wanted.Spec, made)
}
