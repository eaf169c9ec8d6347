package follow

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"

	"vmop/runner/machine/changes"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// evaluation evaluates the VM types that matter for a new configuration. Types that are not part of the program
// run in a separate process: the running VM must not wait for a type that does not end, or uses up all memory.
type evaluation struct {
	*Config
	group   *evaluate.Group
	running *evaluate.Member                         // the type of the running VM
	other   func() (*evaluate.Member, string, error) // the result of wantedType, once it was called
}

// newEvaluation starts an evaluation, which must be closed. It ends with ctx.
func (c *Config) newEvaluation(ctx context.Context) *evaluation {
	group := evaluate.NewGroup(ctx)
	return &evaluation{Config: c, group: group, running: group.AddKept(c.Running.Pin.Archive)}
}

func (e *evaluation) close() { e.group.Close() }

// pendingChanges returns the changes of the wanted VM that need a restart.
func (e *evaluation) pendingChanges(ctx context.Context, wanted *prepare.VM) (list status.Pending, err error) {
	running := comparableMachine(e.Running, e.running.Name())
	types := map[string]*evaluate.Member{running.VMType: e.running}
	next := comparableMachine(wanted, running.VMType)
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
	keepHardware := e.Running.KeepHardware()
	launch := func(ctx context.Context, x changes.Machine) (*plan.Plan, error) {
		host := prepare.ThisHost(x.DataDir, x.RuntimeDir)
		keepHardware(&host)
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
		of = e.Running.Config // the new configuration no longer has the data
	}
	for i := range pending.Changes {
		c := &pending.Changes[i]
		c.Path = networkPath(c.Path, wanted, e.Running)
		if c.Path == "cloudInit" {
			c.Path = of.DataPath()
		}
	}
	return pending, err
}

// takesOtherType reports whether a restart may use another type than the running VM.
func (c *Config) takesOtherType(wanted *prepare.VM) bool {
	return wanted.Config.UpdateVMType || wanted.Config.VMType != c.Running.Config.VMType
}

// wantedType loads the type that a restart would use, and names it: the same modules get the same name. An
// evaluation has one wanted type.
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

// comparableMachine returns the parts of a VM that matter for its plan.
func comparableMachine(vm *prepare.VM, vmType string) changes.Machine {
	return changes.Machine{
		DataDir: vm.DataDir, RuntimeDir: vm.RuntimeDir, VMType: vmType,
		CloudInit: vm.CloudInit(), Sysprep: vm.Facts.Sysprep, DisplayPassword: vm.Protected, VM: vm.Spec.WithoutNBD(),
		NBDCertificates: vm.NBDCertificates(),
	}
}

// checkWanted checks that a new configuration can be applied: its options are valid for the type that a restart would
// use, and the policy allows the changes that apply to the running VM.
func (e *evaluation) checkWanted(ctx context.Context, wanted *prepare.VM) error {
	if !e.takesOtherType(wanted) {
		if err := wanted.Locate(e.running.CheckOptions(wanted.Spec, wanted.OptionFiles())); err != nil {
			return err
		}
	} else if other, _, err := e.wantedType(wanted); err == nil { // pendingChanges reports this error
		var faults *vmtypes.FieldsError
		if err := other.CheckOptions(wanted.Spec, wanted.OptionFiles()); errors.As(err, &faults) {
			return wanted.Locate(err)
		}
	}
	if err := wanted.RefuseLinks(e.Running); err != nil {
		return err
	}
	if err := e.checkFormats(wanted); err != nil {
		return err
	}
	return e.checkPolicy(ctx, wanted)
}

// checkFormats refuses a raw disk that contains an image of another format.
func (e *evaluation) checkFormats(wanted *prepare.VM) error {
	origins, err := prepare.ReadOrigins(e.Running.DataDir)
	if err != nil {
		return err
	}
	return wanted.Config.Locate(prepare.WrongFormats(wanted.Spec.Drives, origins, e.Running.DataDir))
}

// checkPolicy checks that the policy allows the running type's plan for a new configuration, because, for
// example, a medium changes while the VM is running. It denies what cannot be evaluated. Otherwise a failing type
// would bypass the policy.
func (e *evaluation) checkPolicy(ctx context.Context, wanted *prepare.VM) error {
	if e.Options.Policy == nil {
		return e.PolicyFault
	}
	made, err := e.running.Launch(ctx, wanted.WholeSpec(), e.Running.Host())
	var faults *vmtypes.FaultsError
	if err != nil && !errors.As(err, &faults) {
		return fmt.Errorf("whether the policy for VM types allows it cannot be evaluated: %w", err)
	}
	return e.Running.Judge(ctx, e.Options, wanted.WholeSpec(), made)
}
