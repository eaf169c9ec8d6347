package prepare

import (
	"context"
	"fmt"
	"path/filepath"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// Judge wants a plan to be one that the policy allows, if there is one, and, if its type came from another runner, one
// that does what this side's own type does. spec is what the plan was made for.
func (vm *VM) Judge(ctx context.Context, opts Options, spec vmspec.Spec, made *plan.Plan) error {
	if opts.Policy == nil && !vm.Pin.isReceived() {
		return nil
	}
	folder, err := TypeFolder(opts.VMTypes, vm.Config.VMType)
	if err != nil {
		return err
	}
	s := policy.Subject{
		Folder: folder, DataDir: vm.DataDir, RuntimeDir: vm.RuntimeDir, Options: spec.Options, Reserved: vm.reserved(),
	}
	for _, d := range spec.Drives {
		if d.Size > 0 || d.Source != "" {
			s.Images = append(s.Images, d.File)
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

// TypeFolder returns where a policy sees a VM type. A kept copy of a type counts
// as the type of that name.
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
