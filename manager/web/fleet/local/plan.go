package local

import (
	"context"

	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
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

// Usage implements fleet.Fleet.
func (f *Fleet) Usage(ctx context.Context, name string) ([]fleet.Sample, error) {
	client, err := f.dialRunner(ctx, name)
	if err != nil {
		return nil, err
	}
	samples, err := describe.Usage(ctx, client)
	return samples, asRefusal(err)
}
