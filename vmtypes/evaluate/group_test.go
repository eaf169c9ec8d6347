package evaluate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/sandbox"
)

// A type in a group computes the same plans as outside of a group, whether it comes from a folder or from an archive.
func TestAGroupEvaluatesTypes(t *testing.T) {
	t.Parallel()
	host := sample.HostFacts{}.Host()
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(t, err)
	stock, err := vmtypes.Source{}.Library().Load(t.Context(), "standard")
	require.NoError(t, err)
	want, err := stock.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	g := NewGroup(t.Context())
	t.Cleanup(g.Close)
	found, err := g.Add(Type{Source: variant("standard"), Name: "variant"})
	require.NoError(t, err)
	archive, err := found.Archive()
	require.NoError(t, err)
	kept := g.AddKept(archive)
	require.Nil(t, kept.loaded)
	own, err := stock.Archive()
	require.NoError(t, err)
	here := g.AddKept(own)
	require.NotNil(t, here.loaded)
	for range 3 {
		for _, m := range []*Member{found, kept, here} {
			got, err := m.Launch(t.Context(), spec, host)
			require.NoError(t, err)
			got.Type = want.Type
			require.Equal(t, want.Text(), got.Text())
		}
	}
	again, err := kept.Archive()
	require.NoError(t, err)
	require.Equal(t, string(archive), string(again))
}

// Errors in a type or its input are the same as outside of a group, and do not affect the other types.
func TestFaultsInAGroup(t *testing.T) {
	t.Parallel()
	host := sample.HostFacts{}.Host()
	spec, err := sample.ParseVM([]byte("network: []\noptions: {nonsense: 1}\n"))
	require.NoError(t, err)
	g := NewGroup(t.Context())
	t.Cleanup(g.Close)
	source := vmtypes.Source{Dir: "types", Modules: map[string]string{
		"broken.star": "def launch(vm, host)\n", "simple.star": "def launch(vm, host):\n    return 1\n",
	}}
	broken, err := g.Add(Type{Source: source, Name: "broken"})
	require.NoError(t, err)
	simple, err := g.Add(Type{Source: source, Name: "simple"})
	require.NoError(t, err)
	for range 2 {
		_, err = broken.Launch(t.Context(), spec, host)
		require.ErrorContains(t, err, "VM type broken: broken.star:1:21: got newline, want ':'")
		require.ErrorContains(t, broken.CheckOptions(spec, vmtypes.Files{}), "got newline")
		_, err = broken.Archive()
		require.ErrorContains(t, err, "got newline")
		require.ErrorAs(t, simple.CheckOptions(spec, vmtypes.Files{}), new(*vmtypes.FieldsError))
		_, err = simple.Launch(t.Context(), spec, host)
		require.ErrorAs(t, err, new(*vmtypes.FieldsError))
	}
	spec.Options = nil
	require.NoError(t, simple.CheckOptions(spec, vmtypes.Files{}))
	_, err = simple.Launch(t.Context(), spec, host)
	require.ErrorContains(t, err, "must return a part")
}

// An endless type ends the group when it reaches a limit, or when the group is closed.
func TestAGroupEnds(t *testing.T) {
	t.Parallel()
	host := sample.HostFacts{}.Host()
	spec, err := sample.ParseVM([]byte("network: []\n"))
	require.NoError(t, err)
	source := vmtypes.Source{Modules: map[string]string{"evil.star": body("return 'a' * 1000000000")}}
	g := NewGroup(t.Context())
	t.Cleanup(g.Close)
	evil, err := g.Add(Type{Source: source, Name: "evil"})
	require.NoError(t, err)
	for range 2 {
		_, err = evil.Launch(t.Context(), spec, host)
		require.ErrorIs(t, err, sandbox.ErrMemory)
	}

	ctx, cancel := context.WithCancel(t.Context())
	g = NewGroup(ctx)
	t.Cleanup(g.Close)
	slow, err := g.Add(Type{Source: vmtypes.Source{
		Modules: map[string]string{"slow.star": body("for i in range(1 << 60):", "    pass")},
	}, Name: "slow"})
	require.NoError(t, err)
	_, err = slow.Archive()
	require.NoError(t, err)
	cancel()
	_, err = slow.Launch(ctx, spec, host)
	require.ErrorIs(t, err, context.Canceled)
}
