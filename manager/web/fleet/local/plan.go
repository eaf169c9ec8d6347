package local

import (
	"context"

	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/runner/hardware"
)

// Plan implements fleet.Fleet.
func (f *Fleet) Plan(ctx context.Context, name string) ([]fleet.Argument, error) {
	p, err := f.inventory.Plan(ctx, name)
	if err != nil {
		return nil, asRefusal(err)
	}
	return describe.Plan(p), nil
}

// Source implements fleet.Fleet.
func (f *Fleet) Source(ctx context.Context, name, module string) (string, error) {
	text, err := f.inventory.Source(ctx, name, module)
	return text, asRefusal(err)
}

// Devices implements fleet.Fleet.
func (f *Fleet) Devices(ctx context.Context, name string) (hardware.Report, error) {
	vm, err := f.inventory.Find(ctx, name)
	if err == nil && vm.Status == nil {
		err = describe.NoDevices
	}
	if err != nil {
		return hardware.Report{}, asRefusal(err)
	}
	client, err := vm.Dial(ctx)
	if err != nil {
		return hardware.Report{}, asRefusal(err)
	}
	report, err := describe.Devices(ctx, client)
	return report, asRefusal(err)
}

// Usage implements fleet.Fleet.
func (f *Fleet) Usage(ctx context.Context, name string) ([]fleet.Sample, error) {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	samples, err := describe.Usage(ctx, client)
	return samples, asRefusal(err)
}
