package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// sized is a type with a plan of sizes, which company users select by name.
const sized = `
load("@vmtypes//cloud.star", cloud = "launch", cloud_options = "options")

api_version = 1
options = cloud_options | {"plan": attr.string(default = "small", values = ["small", "large"])}

def defaults(vm):
    if vm.options.plan == "large":
        return {"maximumCpus": 8, "currentCpus": 4, "maximumRam": "8 GiB", "currentRam": 4 << 30}
    return {"maximumCpus": 2 if vm.currentCpus == None else 2 * vm.currentCpus}

def launch(vm, host):
    return cloud(vm, host)
`

// The plan, and everything else, has the sizes that the type decides. Given sizes win.
func TestATypeDecidesSizes(t *testing.T) {
	t.Parallel()
	vmType, err := vmtypes.Source{Modules: map[string]string{"sized.star": sized}}.Library().Load(t.Context(), "sized")
	require.NoError(t, err)
	for name, row := range map[string]struct {
		plan  string
		given vmspec.Sizes
		want  vmspec.Sizes // of the machine
		args  []string
	}{
		"small": {
			"small",
			vmspec.Sizes{},
			vmspec.Sizes{MaximumCPUs: 2, CurrentCPUs: 2, MaximumRAM: vmspec.GiB, CurrentRAM: vmspec.GiB},
			[]string{"maxcpus=2", "-m 1024M\n"},
		},
		"large": {
			"large",
			vmspec.Sizes{},
			vmspec.Sizes{MaximumCPUs: 8, CurrentCPUs: 4, MaximumRAM: 8 * vmspec.GiB, CurrentRAM: 4 * vmspec.GiB},
			[]string{"maxcpus=8", "-m 8192M"},
		},
		"less than the type": {
			"large",
			vmspec.Sizes{MaximumCPUs: 2, MaximumRAM: 2 * vmspec.GiB},
			vmspec.Sizes{MaximumCPUs: 2, CurrentCPUs: 2, MaximumRAM: 2 * vmspec.GiB, CurrentRAM: 2 * vmspec.GiB},
			[]string{"maxcpus=2", "-m 2048M"},
		},
		"more than the type": {
			"large",
			vmspec.Sizes{CurrentCPUs: 16},
			vmspec.Sizes{MaximumCPUs: 16, CurrentCPUs: 16, MaximumRAM: 8 * vmspec.GiB, CurrentRAM: 4 * vmspec.GiB},
			[]string{"maxcpus=16"},
		},
		"derived from a given value": {
			"small",
			vmspec.Sizes{CurrentCPUs: 3},
			vmspec.Sizes{MaximumCPUs: 6, CurrentCPUs: 3, MaximumRAM: vmspec.GiB, CurrentRAM: vmspec.GiB},
			[]string{"maxcpus=6"},
		},
		"all given": {
			"large",
			vmspec.Sizes{MaximumCPUs: 1, CurrentCPUs: 1, MaximumRAM: vmspec.GiB, CurrentRAM: vmspec.GiB},
			vmspec.Sizes{MaximumCPUs: 1, CurrentCPUs: 1, MaximumRAM: vmspec.GiB, CurrentRAM: vmspec.GiB},
			[]string{"-m 1024M\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := vmspec.Spec{
				Name: "a", Options: map[string]any{"plan": row.plan}, Firmware: vmspec.FirmwareBIOS,
				Network: []vmspec.Network{},
			}
			spec = spec.ReplaceSizes(row.given)
			sizes, err := vmType.Sizes(t.Context(), spec, vmtypes.Files{})
			require.NoError(t, err)
			require.Equal(t, row.want, spec.FillSizes(sizes).WithDefaults().Sizes())
			host := emptyHost()
			host.Exists = func(string) bool { return true }
			made, err := vmType.Launch(t.Context(), spec.WithOtherDefaults(), host)
			require.NoError(t, err)
			for _, arg := range row.args {
				require.Contains(t, made.Text(), arg)
			}
		})
	}
}

// A given topology is the maximum, whatever the type decides.
func TestATopologyWins(t *testing.T) {
	t.Parallel()
	spec := vmspec.Spec{Sockets: 2, CoresPerDie: 2}.FillSizes(vmspec.Sizes{MaximumCPUs: 8, CurrentCPUs: 8})
	require.Equal(t, 4, spec.MaximumCPUs)
	require.Equal(t, 4, spec.CurrentCPUs)
}

// A type without defaults needs no process to decide that it decides nothing. Many modules have an option -nodefaults.
func TestWhichTypesMayDecideSizes(t *testing.T) {
	t.Parallel()
	for text, may := range map[string]bool{
		"def launch(vm, host):\n    return part(options = [option(\"-nodefaults\")])\n": false,
		"# defaults = none\ndef my_defaults(vm):\n    return {}\n":                      false,
		sized:                                   true,
		"defaults = common\n":                   true,
		"\"\"\"x.\"\"\"\ndef defaults (vm): {}": true,
	} {
		require.Equal(t, may, vmtypes.MayDecideSizes(text), text)
	}
	stock, err := vmtypes.Source{}.Library().Load(t.Context(), "standard")
	require.NoError(t, err)
	archive, err := stock.Archive()
	require.NoError(t, err)
	require.False(t, vmtypes.MayDecideSizes(string(archive)))
}
