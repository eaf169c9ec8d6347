package prepare

import (
	"fmt"
	"path/filepath"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// Judge wants a plan to be one that the policy allows, which may be nil: then all
// are. spec is what the plan was made for.
func (vm *VM) Judge(p *policy.Policy, vmTypes string, spec vmspec.Spec, made *plan.Plan) error {
	if p == nil {
		return nil
	}
	folder, err := TypeFolder(vmTypes, vm.Config.VMType)
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
	return p.Check(made, s)
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
