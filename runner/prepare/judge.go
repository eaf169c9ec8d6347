package prepare

import (
	"context"
	"fmt"
	"path/filepath"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
	"vmop/vmtypes/signature"
)

// Judge checks that the policy allows a plan, if there is a policy. If the plan's type came from another runner,
// it also checks that the plan stays within the limits of the local type's plan. spec is the input of the plan.
func (vm *VM) Judge(ctx context.Context, opts Options, spec vmspec.Spec, made *plan.Plan) error {
	if opts.Policy == nil && !vm.Pin.isReceived() {
		return nil
	}
	folder, err := TypeFolder(opts.VMTypes, vm.Config.VMType)
	if err != nil {
		return err
	}
	s := policy.Subject{
		Folder: folder, DataDir: vm.DataDir, RuntimeDir: vm.RuntimeDir, Options: spec.Options,
		Reserved: vm.reservedPaths(),
	}
	for _, d := range spec.Drives {
		if d.Size > 0 || d.Source != "" {
			s.Images = append(s.Images, d.File)
		}
	}
	if len(opts.Policy.SignersOf(folder)) > 0 {
		s.Modules = vmtypes.ArchivedModules(vm.Pin.Archive)
		if s.Proof, err = vm.findProof(folder, s.Modules); err != nil {
			return err
		}
	}
	if err := opts.Policy.Check(made, s); err != nil || !vm.Pin.isReceived() {
		return err
	}
	own, err := vm.ownPlan(ctx, opts.VMTypes, spec)
	if err != nil {
		return fmt.Errorf("compare the VM type %s, which came from another runner, with this side's own: %w",
			vm.Config.VMType, err)
	}
	return policy.CheckReceived(made, own, s)
}

// findProof returns the signature of the VM's type, or nil: from the VM's copy of the type, or from the lock file of
// the type's folder. The copy gets a signature from the lock file that covers its modules, so that the VM can keep its
// type when the folder gets a newer version.
func (vm *VM) findProof(folder string, modules map[string]string) (*signature.Proof, error) {
	if p := vmtypes.ArchivedProof(vm.Pin.Archive); p != nil {
		return p, nil
	}
	name := baseType(vm.Config.VMType)
	p, err := signature.ReadProof(folder, name)
	if p == nil || err != nil || p.Covers(name, modules) != nil {
		return p, err
	}
	vm.Pin.Archive, err = vmtypes.AddProof(vm.Pin.Archive, *p)
	vm.Pin.Kept = false
	return p, err
}

// TypeFolder returns the folder that a policy uses for a VM type. A kept copy of a type counts as the type of
// that name.
func TypeFolder(vmTypes, name string) (string, error) {
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
