package manager

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
	"vmop/vmtypes"
)

// The pages use the same types and plans as the controller's checks of VMs, with errors in terms of the resource.
func TestPlanner(t *testing.T) {
	t.Parallel()
	p := planner{newTypeChecker(), func(context.Context, *v1.VirtualMachine) (map[string]string, error) {
		return map[string]string{"derived.star": derived}, nil
	}, func(m *v1.VirtualMachine) (*v1.VirtualMachine, string, error) { return m, "", nil }}
	ctx := t.Context()
	names, err := p.Names(ctx)
	require.NoError(t, err)
	require.Subset(t, names, []string{"standard", "windows", "derived"})
	for _, name := range []string{"standard", "derived"} {
		about, err := p.Describe(ctx, name)
		require.NoError(t, err)
		require.Equal(t, name, about.Name)
		made, err := p.Plan(ctx, machine("web", name))
		require.NoError(t, err)
		require.NotEmpty(t, made.QEMU.Args)
	}
	_, err = p.Describe(ctx, "none-such")
	require.ErrorContains(t, err, "none-such")

	faultsOf := func(m *v1.VirtualMachine) fleet.Fault {
		_, err := p.Plan(ctx, m)
		var faults fleet.Faults
		require.ErrorAs(t, err, &faults)
		require.Len(t, faults, 1)
		return faults[0]
	}
	misspelt := faultsOf(withOptions(machine("web", "derived"), `{"color": "red"}`))
	require.Equal(t, "spec.vm.options.color", misspelt.Path)
	red := faultsOf(withOptions(machine("web", "derived"), `{"colour": "red"}`))
	require.Contains(t, red.Message, "red is sold out")
	require.Equal(t, "spec.vm.networks[0]", faultsOf(inNet(machine("web", "standard"), "10.0.2.5/24")).Path)
	unknown := faultsOf(machine("web", "none-such"))
	require.Equal(t, "spec.vmType.source", unknown.Path)
	require.Contains(t, unknown.Message, "none-such")

	text, err := p.Module(ctx, machine("web", "derived"), "derived.star")
	require.NoError(t, err)
	require.Equal(t, derived, text)
	text, err = p.Module(ctx, machine("web", "derived"), vmtypes.StockModules()[0])
	require.NoError(t, err)
	require.NotEmpty(t, text)
	for _, name := range []string{"other.star", vmtypes.StockPrefix + "none", "../../etc/passwd"} {
		_, err = p.Module(ctx, machine("web", "derived"), name)
		require.ErrorIs(t, err, fleet.ErrNotFound)
	}
}
