package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes"
)

// Steps are counted where they are taken, and the same each time.
func TestProfile(t *testing.T) {
	t.Parallel()
	source := vmtypes.Source{Modules: map[string]string{"my.star": `
def launch(vm, host):
    busy(1000)
    busy(1000)
    return part(executable = "/bin/true")

def busy(n):
    for i in range(n):
        idle()

def idle():
    pass
`}}
	vmType, err := source.Library().Load(t.Context(), "my")
	require.NoError(t, err)
	costs, err := vmType.Profile(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	require.Len(t, costs, 3)
	by := map[string]vmtypes.Cost{}
	for _, c := range costs {
		by[c.Function] = c
	}
	require.Equal(t, "busy", costs[0].Function)
	require.Equal(t, 7, by["busy"].Line)
	require.Equal(t, "my.star", by["busy"].File)
	require.Equal(t, uint64(4000), by["idle"].Steps, "None and return, 2000 times")
	require.Equal(t, by["idle"].Steps, by["idle"].AllSteps)
	require.Equal(t, by["busy"].Steps+by["idle"].Steps, by["busy"].AllSteps)
	require.Equal(t, by["launch"].Steps+by["busy"].AllSteps, by["launch"].AllSteps)
	require.Positive(t, by["idle"].Time)
	require.LessOrEqual(t, by["busy"].AllTime, by["launch"].AllTime)
	again, err := vmType.Profile(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	for i := range costs {
		require.Equal(t, costs[i].AllSteps, again[i].AllSteps)
	}
	source.Modules["endless.star"] = "def launch(vm, host):\n    for i in range(1 << 60):\n        pass\n"
	vmType, err = source.Library().Load(t.Context(), "endless")
	require.NoError(t, err)
	_, err = vmType.Profile(t.Context(), smallVM(), emptyHost())
	require.ErrorContains(t, err, "endless.star:2:5: took too many steps")
}
