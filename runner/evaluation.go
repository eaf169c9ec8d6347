package runner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"vmop/runner/changes"
	"vmop/runner/status"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// evaluation has the VM types evaluated that matter to a new configuration, in a
// process of their own if they are not the program's: the running VM must not wait
// for a type that does not end, or takes all memory.
type evaluation struct {
	m       *run
	group   *evaluate.Group
	running *evaluate.Member                         // the type of the running VM
	other   func() (*evaluate.Member, string, error) // of wantedType, once it was called
}

// evaluation begins one, which must be closed. It ends with ctx.
func (m *run) evaluation(ctx context.Context) *evaluation {
	group := evaluate.NewGroup(ctx)
	return &evaluation{m: m, group: group, running: group.AddKept(m.vm.pin.vmType, m.vm.pin.archive)}
}

func (e *evaluation) close() { e.group.Close() }

// pendingChanges returns what of the wanted VM awaits a restart.
func (e *evaluation) pendingChanges(ctx context.Context, wanted *VM) (list []status.Change, err error) {
	running := e.m.vm.comparable(e.running.Name())
	types := map[string]*evaluate.Member{running.VMType: e.running}
	next := wanted.comparable(running.VMType)
	if e.m.takesOtherType(wanted) {
		other, text, err := e.wantedType(wanted)
		if err != nil {
			return nil, err
		}
		next.VMType = text
		if types[text] == nil {
			types[text] = other
		}
	}
	launch := func(ctx context.Context, x changes.Machine) (*plan.Plan, error) {
		host := newHost(x.DataDir, x.RuntimeDir)
		host.HasDisplayPassword = x.DisplayPassword
		host.Machines = e.m.vm.pin.machines
		if x.CloudInit != "" {
			host.CloudInitImage = filepath.Join(x.RuntimeDir, cloudInitImage)
		}
		return types[x.VMType].Launch(ctx, x.VM, host)
	}
	return changes.Pending(ctx, launch, running, next, changes.Live(e.m.vm.Plan.Rules, wanted.Spec))
}

// takesOtherType reports whether a restart may take another type than the VM runs
// with.
func (m *run) takesOtherType(wanted *VM) bool {
	return wanted.Config.UpdateVMType || wanted.Config.VMType != m.vm.Config.VMType
}

// wantedType loads the type that a restart would take, and names it: the same
// modules have the same name. An evaluation has one wanted type.
func (e *evaluation) wantedType(wanted *VM) (other *evaluate.Member, text string, err error) {
	if e.other == nil {
		other, text, err = e.loadType(wanted)
		e.other = func() (*evaluate.Member, string, error) { return other, text, err }
	}
	return e.other()
}

func (e *evaluation) loadType(wanted *VM) (other *evaluate.Member, text string, err error) {
	found, err := evaluate.Find(e.m.vmTypes, wanted.Config.VMType)
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
	if string(archive) == string(e.m.vm.pin.archive) {
		return other, other.Name(), nil
	}
	return other, fmt.Sprintf("%s (%.4x)", other.Name(), sha256.Sum256(archive)), nil
}

// comparable returns what of a VM matters for its plan.
func (vm *VM) comparable(vmType string) changes.Machine {
	x := changes.Machine{
		DataDir: vm.DataDir, RuntimeDir: vm.RuntimeDir, VMType: vmType,
		DisplayPassword: vm.protected, VM: vm.Spec,
	}
	if vm.seed != nil {
		hash := sha256.New()
		for _, part := range [][]byte{vm.seed.MetaData, vm.seed.UserData, vm.seed.NetworkConfig, vm.seed.VendorData} {
			fmt.Fprintf(hash, "%d\n%s", len(part), part)
		}
		x.CloudInit = fmt.Sprintf("%.8x", hash.Sum(nil))
	}
	return x
}
