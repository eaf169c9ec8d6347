package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// An option of a part gets other properties, and keeps its tap, its place and where it was
// made.
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
	require.Regexp(t, `-netdev tap,.*# @vmtypes//lib/network.star:`, p.Why())
}
