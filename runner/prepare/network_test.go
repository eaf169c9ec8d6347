package prepare

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
	"vmop/vmspec"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// A VM without network settings has a default network for its environment, and keeps it while it is running.
func TestAbsentNetwork(t *testing.T) {
	t.Parallel()
	for network, want := range map[string]map[bool][]vmspec.NetworkType{
		"":                         {true: {vmspec.NetworkTap}, false: {vmspec.NetworkUser}},
		", network: []":            {true: nil, false: nil},
		", network: [{type: tap}]": {true: {vmspec.NetworkTap}, false: {vmspec.NetworkTap}},
	} {
		for bridge, types := range want {
			dir := t.TempDir()
			folder.Fill(t, dir, folder.Files{
				"c.yaml": "/Runner: {dataDir: data, runtimeDir: run, vm: {name: x" + network + "}}\n",
			})
			vm, err := Open(filepath.Join(dir, "c.yaml"))
			require.NoError(t, err)
			vm.Facts.Bridge = &bridge
			group := evaluate.NewGroup(t.Context())
			defer group.Close()
			_, err = vm.openType(group, "")
			require.NoError(t, err)
			require.NoError(t, vm.resolveSpec(vm.DataDir, false))
			vm.Plan = &plan.Plan{}
			next, err := vm.Renewed(t.Context(), vm.Config)
			require.NoError(t, err)
			for _, x := range []*VM{vm, next} {
				var got []vmspec.NetworkType
				for _, n := range x.Spec.Network {
					got = append(got, n.Type)
				}
				require.Equal(t, types, got, network)
				noted := slices.ContainsFunc(x.Notes(), func(n Note) bool {
					return strings.HasPrefix(n.Text, "vm.network is absent")
				})
				require.Equal(t, network == "" && !bridge, noted)
			}
		}
	}
}
