package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/lock"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// judge wants a plan to be one that the policy allows; spec is what it was made
// for.
func (vm *VM) judge(p *policy.Policy, vmTypes string, spec vmspec.Spec, made *plan.Plan) error {
	if p == nil {
		return nil
	}
	folder, err := typeFolder(vmTypes, vm.Config.VMType)
	if err != nil {
		return err
	}
	s := policy.Subject{Folder: folder, DataDir: vm.DataDir, RuntimeDir: vm.RuntimeDir, Options: spec.Options}
	for _, d := range spec.Drives {
		if d.Size > 0 {
			s.Images = append(s.Images, d.File)
		}
	}
	for _, name := range []string{monitorSocket, control.SocketName, recordFile, progressFile, typeFile, configFile} {
		s.Reserved = append(s.Reserved, filepath.Join(vm.RuntimeDir, name))
	}
	for _, name := range []string{
		pinnedType, pinnedMachines, config.UUIDFile, lock.RunnerFile, lock.MachineFile, runtimeLink,
		endedFile,
	} {
		s.Reserved = append(s.Reserved, filepath.Join(vm.DataDir, name))
	}
	return p.Check(made, s)
}

// typeFolder returns where a policy sees a VM type. A kept copy of a type counts
// as the type of that name.
func typeFolder(vmTypes, name string) (string, error) {
	switch {
	case filepath.IsAbs(name):
		return filepath.Dir(filepath.Clean(name)), nil
	case vmtypes.IsStock(name):
		return policy.Stock, nil
	}
	folder, err := filepath.Abs(vmTypes)
	if err != nil {
		return "", fmt.Errorf("folder of VM types: %w", err)
	}
	return folder, nil
}

// check wants a new configuration to be one that could be taken: its options are
// what the type takes that a restart would take, and what it changes while the VM
// runs is allowed.
func (e *evaluation) check(ctx context.Context, wanted *VM) error {
	if !e.m.takesOtherType(wanted) {
		if err := wanted.locate(e.m.vm.pin.vmType.CheckOptions(wanted.Spec)); err != nil {
			return err
		}
	} else if other, _, err := e.wantedType(wanted); err == nil { // pendingChanges reports its fault
		var faults *vmtypes.OptionsError
		if err := other.CheckOptions(wanted.Spec); errors.As(err, &faults) {
			return wanted.locate(err)
		}
	}
	return e.checkPolicy(ctx, wanted)
}

// checkPolicy wants the plan that the running type makes of a new configuration to
// be allowed: a medium, for one, is changed while the VM runs. What cannot be
// evaluated is denied, or a type that fails would be a way round the policy.
func (e *evaluation) checkPolicy(ctx context.Context, wanted *VM) error {
	if e.m.policy == nil {
		return e.m.policyFault
	}
	made, err := e.running.Launch(ctx, wanted.Spec, e.m.vm.host())
	var faults *vmtypes.FaultsError
	if err != nil && !errors.As(err, &faults) {
		return fmt.Errorf("whether the policy for VM types allows it cannot be evaluated: %w", err)
	}
	return e.m.vm.judge(e.m.policy, e.m.vmTypes, wanted.Spec, made)
}
