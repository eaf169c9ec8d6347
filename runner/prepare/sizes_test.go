package prepare

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/test/folder"
	"vmop/vmspec"
)

// A type decides the sizes of a VM for its start, for its list, and for a new configuration while it runs.
func TestTheTypeDecidesSizes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	write := func(vm string) *config.Config {
		folder.Fill(t, dir, folder.Files{
			"c.yaml": `"/Runner": {dataDir: data, runtimeDir: run, vmType: sized, vm: {` + vm + "}}\n",
		})
		cfg, _, err := config.Load(file)
		require.NoError(t, err)
		return cfg
	}
	types := filepath.Join(dir, "types")
	folder.Fill(t, types, folder.Files{"sized.star": `
options = {"plan": attr.string(default = "small", values = ["small", "large"])}

def defaults(vm):
    if vm.options.plan == "large":
        return {"maximumCpus": 4, "maximumRam": "4 GiB", "currentRam": "2 GiB"}
    return {}

def launch(vm, host):
    return part(executable = "/bin/true", options = [option("-m", vm.currentRam // (1 << 20))])
`})
	large := vmspec.Sizes{MaximumCPUs: 4, CurrentCPUs: 4, MaximumRAM: 4 * vmspec.GiB, CurrentRAM: 2 * vmspec.GiB}
	small := vmspec.Sizes{MaximumCPUs: 1, CurrentCPUs: 1, MaximumRAM: vmspec.GiB, CurrentRAM: vmspec.GiB}

	cfg := write("name: x, options: {plan: large}")
	decided := Sizes(t.Context(), cfg, file, types)
	require.Equal(t, large, cfg.VM.FillSizes(decided).WithDefaults().Sizes(), "it was never run")
	vm, err := Plan(t.Context(), Options{ConfigFile: file, VMTypes: types})
	require.NoError(t, err)
	require.Equal(t, large, vm.Spec.Sizes())
	require.Contains(t, vm.Plan.Text(), "-m 2048\n")

	next, err := vm.Renewed(t.Context(), write("name: x"))
	require.NoError(t, err)
	require.Equal(t, small, next.Spec.Sizes(), "the plan has changed")
	next, err = vm.Renewed(t.Context(), write("name: x, currentRam: 1 GiB, options: {plan: large}"))
	require.NoError(t, err)
	require.Equal(t, vmspec.GiB, next.Spec.CurrentRAM, "the user's own")
	require.Equal(t, 4*vmspec.GiB, next.Spec.MaximumRAM)
}
