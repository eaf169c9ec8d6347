package local

import (
	"context"
	"fmt"

	"vmop/manager/web/fleet"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// Networks implements fleet.Cards.
func (f *Fleet) Networks() []string { return vmspec.Choices("vm.network[].type") }

// AttachCard implements fleet.Cards.
func (f *Fleet) AttachCard(ctx context.Context, _, name string, c fleet.Card) error {
	n := vmspec.Network{Type: vmspec.NetworkType(c.Network), Bridge: c.Bridge}
	return f.changeCard(ctx, name, "attach a network card",
		func(ctx context.Context, r inventory.NICRequest) (inventory.NICChange, error) {
			return f.inventory.AttachNIC(ctx, r, n)
		})
}

// DetachCard implements fleet.Cards.
func (f *Fleet) DetachCard(ctx context.Context, _, name, key string) error {
	return f.changeCard(ctx, name, "detach a network card",
		func(ctx context.Context, r inventory.NICRequest) (inventory.NICChange, error) {
			return f.inventory.DetachNIC(ctx, r, key)
		})
}

// SetLink implements fleet.Cards.
func (f *Fleet) SetLink(ctx context.Context, _, name, key string, up bool) error {
	link := vmspec.LinkDown
	if up {
		link = vmspec.LinkUp
	}
	return f.changeCard(ctx, name, fmt.Sprintf("set a link %s", link),
		func(ctx context.Context, r inventory.NICRequest) (inventory.NICChange, error) {
			return f.inventory.SetLink(ctx, r, key, link)
		})
}

// changeCard changes a network card of a VM in the background.
func (f *Fleet) changeCard(ctx context.Context, name, what string,
	do func(context.Context, inventory.NICRequest) (inventory.NICChange, error),
) error {
	return f.changeInBackground(ctx, name, what, func(ctx context.Context) error {
		c, err := do(ctx, inventory.NICRequest{
			VM: name, Limit: deviceTime, Tell: func(_, text string) { f.showStep(ctx, name, text) },
		})
		for _, text := range c.Warnings {
			f.log.Warn("the configuration has a warning", "vm", name, "warning", text)
		}
		return err
	})
}
