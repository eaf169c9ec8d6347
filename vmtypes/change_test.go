package vmtypes_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A changed option of a part has new properties, and keeps its tap, its position and its origin.
func TestAnOptionOfAPartIsChanged(t *testing.T) {
	t.Parallel()
	fast, err := vmtypes.Source{Modules: map[string]string{"fast.star": `
load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    machine = change(standard(vm, host), "-netdev net0", {"vhost": True})
    machine = change(machine, "-device nic0", {"mac": "52:54:00:00:00:01", "mq": True, "addr": None})
    return change(machine, "-device disk0", {"serial": "a,b", "num-queues": None})
`}}.Library().Load(t.Context(), "fast")
	require.NoError(t, err)
	spec, host := windowsVM(vmtypes.Files{}, "")
	spec.Options = nil
	spec.Network = []vmspec.Network{{
		Type: vmspec.NetworkTap, Device: "virtio-net-pci", Bridge: "br0", Ifname: "tap7", MAC: "52:54:00:11:22:33",
	}}
	spec.Drives = []vmspec.Drive{{Type: vmspec.DriveRaw, File: "/a.img"}}
	p, err := fast.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	text := p.Text()
	require.Regexp(t, `(?m)^    -netdev tap,id=net0,fd=<[^>]+>,vhost=on$`, text)
	require.Regexp(t, `(?m)^    -device virtio-net-pci,.*mac=52:54:00:00:00:01.*,mq=on$`, text)
	require.Regexp(t, `(?m)^    -device virtio-blk-pci,.*serial=a,,b`, text)
	require.NotRegexp(t, `-device virtio-blk-pci,.*num-queues`, text)
	require.Regexp(t, `-netdev tap,.*# @vmtypes//lib/network.star:.* < fast.star:5 launch, changed at fast.star:5 launch\n`,
		p.Why())
}

// The origin of a changed or replaced option contains all places that its author may look for, including in the plan's
// JSON.
func TestAnOptionKnowsWhereItWasChangedAndReplaced(t *testing.T) {
	t.Parallel()
	library := vmtypes.Source{Modules: map[string]string{"mine.star": `
def base():
    return part(executable = "/bin/qemu", machine = {"type": "q35"}, options = [
        option("-device", "hda", {"id": "sound0"}),
        option("-device", "rng", {"id": "rng0"}),
    ])

def launch(vm, host):
    p = replace(base(), option("-device", "ac97", {"id": "sound0"}), machine = {"hpet": True})
    p = change(p, "-device sound0", {"a": 1})
    p = replace(p, option("-device", "sb16", {"id": "sound0"}))
    p = change(p, "-device sound0", {"b": 1})
    for i in range(20):
        p = change(p, "-device rng0", {"addr": i})
    p = change(p, "-device rng0", {"b": 1})
    p = change(p, "-device rng0", {"b": 2})
    p = change(p, "-device rng0", {"b": 3})
    p = change(p, "-device rng0", {"b": 4})
    p = change(p, "-device rng0", {"b": 5})
    return change(p, "-device rng0", {"addr": None})
`}}.Library()
	mine, err := library.Load(t.Context(), "mine")
	require.NoError(t, err)
	made, err := mine.Launch(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	want := []string{
		"mine.star:3 base < mine.star:9 launch, changed at mine.star:9 launch",
		"mine.star:11 launch, in place of the one made at mine.star:4 base < mine.star:9 launch, " +
			"changed at mine.star:12 launch",
		"mine.star:5 base < mine.star:9 launch, changed at mine.star:14 launch, changed at mine.star:15 launch, " +
			"changed at mine.star:16 launch, changed at mine.star:20 launch",
	}
	text, err := made.JSON()
	require.NoError(t, err)
	var read plan.Plan
	require.NoError(t, json.Unmarshal(text, &read))
	for _, p := range []*plan.Plan{made, &read} {
		var origins []string
		for _, o := range p.QEMU.Args {
			origins = append(origins, o.Origin.String())
		}
		require.Equal(t, want, origins)
	}
}
