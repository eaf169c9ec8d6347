package lsp

import (
	"context"

	"vmop/authoring/vmtypestest"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// inProcessOptions evaluates trusted types without a QEMU.
func inProcessOptions() Options {
	return Options{
		Evaluator: inProcess{},
		Format:    func(_, text string) (string, error) { return text, nil },
		QEMU:      func(string) QEMU { return nil },
	}
}

// inProcess evaluates trusted types.
type inProcess struct{}

func (inProcess) Launch(
	ctx context.Context, source vmtypes.Source, name string, vm vmspec.Spec, host vmtypes.Host,
) (*plan.Plan, error) {
	t, err := source.Library().Load(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.Launch(ctx, vm, host)
}

func (inProcess) Diagnose(ctx context.Context, source vmtypes.Source, file string) error {
	_, err := source.Library().Script(ctx, file, nil)
	return err
}

func (inProcess) Describe(ctx context.Context, source vmtypes.Source, name string) (vmtypes.Description, error) {
	t, err := source.Library().Load(ctx, name)
	if err != nil {
		return vmtypes.Description{}, err
	}
	return t.Describe(), nil
}

func (inProcess) Test(ctx context.Context, source vmtypes.Source, file string) ([]vmtypestest.Result, error) {
	return vmtypestest.TestFile(ctx, source.Library(), file, nil), nil
}
