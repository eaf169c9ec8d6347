package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/cluster"
	"vmop/manager/web/fleet/describe"
	"vmop/runner/status/k8s"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// planner provides VM types to the pages. It uses them in the same way as the controller when it checks VMs. It
// implements cluster.Types.
type planner struct {
	types *typeChecker
	// modules returns the custom types that are available to a VM.
	modules func(ctx context.Context, vm *v1.VirtualMachine) (map[string]string, error)
	// resolve returns a VM with the values from its class, and the reason if the class refuses the VM.
	resolve func(vm *v1.VirtualMachine) (resolved *v1.VirtualMachine, fault string, err error)
}

var _ cluster.Types = planner{}

// typeSource returns the types that are available to a VM.
func (p planner) typeSource(ctx context.Context, m *v1.VirtualMachine) (vmtypes.Source, error) {
	modules, err := p.modules(ctx, m)
	if err != nil {
		return vmtypes.Source{}, err
	}
	return sourceOf(modules)
}

// Names implements cluster.Types. It returns the names of the stock types and of the types in the manager's
// configured ConfigMap.
func (p planner) Names(ctx context.Context) ([]string, error) {
	source, err := p.typeSource(ctx, &v1.VirtualMachine{})
	if err != nil {
		return nil, err
	}
	return source.Library().Names(), nil
}

// Describe implements cluster.Types.
func (p planner) Describe(ctx context.Context, name string) (about vmtypes.Description, err error) {
	if vmtypes.IsStock(name) {
		t, err := p.types.stockType(ctx, name)
		if err != nil {
			return about, err
		}
		return t.Describe(), nil
	}
	source, err := p.typeSource(ctx, &v1.VirtualMachine{})
	if err != nil {
		return about, err
	}
	err = p.types.runAlone(ctx, func() error {
		about, err = evaluate.Type{Source: source, Name: name}.Describe(ctx)
		return err
	})
	return about, err
}

// Plan implements cluster.Types.
func (p planner) Plan(ctx context.Context, m *v1.VirtualMachine) (*plan.Plan, error) {
	m, fault, err := p.resolve(m)
	if err != nil {
		return nil, err
	}
	if fault != "" {
		return nil, fleet.Faults{{Path: "spec.virtualMachineClassName", Message: fault}}
	}
	modules, err := p.modules(ctx, m)
	if err != nil {
		return nil, err
	}
	made, _, err := p.types.planOf(ctx, m, modules)
	var refused *noPlan
	if !errors.As(err, &refused) {
		return made, err
	}
	faults := describe.Faults(refused.err)
	for i := range faults {
		path, _, _ := strings.Cut(k8s.InResource(faults[i].Path), " ") // a word may follow the path: "(net)"
		faults[i].Path, faults[i].Line = path, 0
		faults[i].Message = k8s.InResource(faults[i].Message)
	}
	if faults == nil {
		faults = fleet.Faults{{Message: refused.text}}
		if rest, is := strings.CutPrefix(refused.text, typePath+": "); is {
			faults[0] = fleet.Fault{Path: typePath, Message: rest}
		}
	}
	return nil, faults
}

// Check returns the errors of a VM with a stock type, or with a type in modules, in the manager's wording. It
// ignores the VM's class. If it can't determine the errors, it returns err.
func Check(ctx context.Context, vm *v1.VirtualMachine, modules map[string]string) (faults fleet.Faults, err error) {
	p := planner{
		types:   newTypeChecker(),
		modules: func(context.Context, *v1.VirtualMachine) (map[string]string, error) { return modules, nil },
		resolve: func(vm *v1.VirtualMachine) (*v1.VirtualMachine, string, error) { return vm, "", nil },
	}
	if _, err = p.Plan(ctx, vm); errors.As(err, &faults) {
		return faults, nil
	}
	return nil, err
}

// Module implements cluster.Types.
func (p planner) Module(ctx context.Context, m *v1.VirtualMachine, name string) (string, error) {
	if strings.HasPrefix(name, vmtypes.StockPrefix) {
		text, err := vmtypes.StockModule(name)
		if err != nil {
			return "", fmt.Errorf("%w: %w", fleet.ErrNotFound, err)
		}
		return text, nil
	}
	source, err := p.typeSource(ctx, m)
	if err != nil {
		return "", err
	}
	text, there := source.Modules[name]
	if !there {
		return "", fmt.Errorf("%w: the VM type has no module %q", fleet.ErrNotFound, name)
	}
	return text, nil
}
