package runner

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"

	"vmop/runner/changes"
	"vmop/runner/status"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// pendingChanges returns what of the wanted VM awaits a restart.
func (m *run) pendingChanges(ctx context.Context, wanted *VM) (list []status.Change, err error) {
	ctx, cancel := context.WithTimeout(ctx, evaluationTime)
	defer cancel()
	running := m.vm.comparable(m.vm.pin.vmType.Name())
	types := map[string]*vmtypes.Type{running.VMType: m.vm.pin.vmType}
	next := wanted.comparable(running.VMType)
	if m.takesOtherType(wanted) {
		vmType, text, err := m.wantedType(ctx, wanted)
		if err != nil {
			return nil, err
		}
		next.VMType = text
		if types[text] == nil {
			types[text] = vmType
		}
	}
	launch := func(ctx context.Context, x changes.Machine) (*plan.Plan, error) {
		host := newHost(x.DataDir, x.RuntimeDir)
		host.HasDisplayPassword = x.DisplayPassword
		host.Machines = m.vm.pin.machines
		if x.CloudInit != "" {
			host.CloudInitImage = filepath.Join(x.RuntimeDir, cloudInitImage)
		}
		return types[x.VMType].Launch(ctx, x.VM, host)
	}
	return changes.Pending(ctx, launch, running, next, changes.Live(m.vm.Plan.Rules, wanted.Spec))
}

// takesOtherType tells whether a restart may take another type than the VM runs
// with.
func (m *run) takesOtherType(wanted *VM) bool {
	return wanted.Config.UpdateVMType || wanted.Config.VMType != m.vm.Config.VMType
}

// wantedType loads the type that a restart would take, and names it: the same
// modules have the same name.
func (m *run) wantedType(ctx context.Context, wanted *VM) (vmType *vmtypes.Type, text string, err error) {
	library, err := vmtypes.Open(m.vmTypes)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	vmType, err = library.Load(ctx, wanted.Config.VMType)
	if err != nil {
		return nil, "", err
	}
	now, err := m.vm.pin.vmType.Archive()
	if err != nil {
		return nil, "", err
	}
	then, err := vmType.Archive()
	if err != nil {
		return nil, "", err
	}
	if string(now) == string(then) {
		return vmType, vmType.Name(), nil
	}
	return vmType, fmt.Sprintf("%s (%.4x)", vmType.Name(), sha256.Sum256(then)), nil
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
