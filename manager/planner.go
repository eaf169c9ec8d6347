package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "vmop/api/v1"
	"vmop/manager/fleet"
	"vmop/manager/fleet/cluster"
	"vmop/manager/fleet/describe"
	"vmop/runner/status/k8s"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// A planner has the VM types for pages, as the controller checks VMs by them. It implements
// cluster.Types.
type planner struct {
	types *typeChecker
	// modules returns the custom types that a VM can use.
	modules func(ctx context.Context, vm *v1.VirtualMachine) (map[string]string, error)
	// resolve returns a VM with what its class gives it, and why the class refuses it.
	resolve func(vm *v1.VirtualMachine) (resolved *v1.VirtualMachine, fault string, err error)
}

var _ cluster.Types = planner{}

// source returns the types that a VM can use.
func (p planner) source(ctx context.Context, m *v1.VirtualMachine) (vmtypes.Source, error) {
	modules, err := p.modules(ctx, m)
	if err != nil {
		return vmtypes.Source{}, err
	}
	return sourceOf(modules)
}

// Names implements cluster.Types: those of the stock types, and of the ConfigMap of the manager's
// configuration.
func (p planner) Names(ctx context.Context) ([]string, error) {
	source, err := p.source(ctx, &v1.VirtualMachine{})
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
	source, err := p.source(ctx, &v1.VirtualMachine{})
	if err != nil {
		return about, err
	}
	err = p.types.alone(ctx, func() error {
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
	made, err := p.types.plan(ctx, m, modules)
	var refused *noPlan
	if !errors.As(err, &refused) {
		return made, err
	}
	faults := describe.Faults(refused.err)
	for i := range faults {
		path, _, _ := strings.Cut(k8s.InResource(faults[i].Path), " ") // a word may follow: "(net)"
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

// Check returns what is wrong with a VM of a stock type, or of one in modules, as the manager would say it; its class
// is not considered. An error means that it isn't known.
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
	source, err := p.source(ctx, m)
	if err != nil {
		return "", err
	}
	text, there := source.Modules[name]
	if !there {
		return "", fmt.Errorf("%w: the VM type has no module %q", fleet.ErrNotFound, name)
	}
	return text, nil
}
