package vmtypes_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Everything that Selector and Things name in a plan can be removed from the part.
func TestNamesOfAPlan(t *testing.T) {
	t.Parallel()
	spec, host := windowsVM(vmtypes.Files{}, "")
	spec.Options, spec.Firmware, spec.UseTPM = nil, vmspec.FirmwareUEFI, true
	launch := func(statement string) *plan.Plan {
		source := vmtypes.Source{Modules: map[string]string{"less.star": `
load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    part = standard(vm, host)
    ` + statement + `
    return standard(vm, host)
`}}
		less, err := source.Library().Load(t.Context(), "less")
		require.NoError(t, err)
		p, err := less.Launch(t.Context(), spec, host)
		require.NoError(t, err, statement)
		return p
	}
	whole := launch("")
	names := vmtypes.Things(whole)
	require.Subset(t, names, []string{"helper swtpm", "rule balloon balloon0", "file fw-vars.fd"})
	for _, o := range whole.QEMU.Args {
		if name := vmtypes.Selector(o); name != "" {
			names = append(names, name)
		}
	}
	require.Contains(t, names, "-device balloon0")
	require.NotContains(t, names, "-machine")
	for _, name := range names {
		launch(fmt.Sprintf("replace(part, remove = [%q])", name))
	}
}

// Selectors with the first words of a line in the plan remove things other than options, and the original part stays
// unchanged.
func TestAnythingIsTakenOutOfAPart(t *testing.T) {
	t.Parallel()
	library := vmtypes.Source{Modules: map[string]string{"less.star": `
load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    whole = combine(standard(vm, host), part(
        env = {"ONE": "1", "TWO": "2"},
        access = [access("/a"), access("/b", "write")],
        ports = {"console": "disk0"},
    ))
    less = replace(whole, remove = [
        ["helper swtpm", "listen swtpm", "-chardev tpm", "-tpmdev tpm0", "-device tpm-tis"],
        ["tap tap7", "-netdev net0", "-device nic0"],
        None,
        ["-device hotplug3"],
        ["socket console", "file fw-vars.fd", "rule cpus", "rule disk disk0", "env ONE", "access /a"],
    ])
    return whole if vm.bootMenu else less
`}}.Library()
	less, err := library.Load(t.Context(), "less")
	require.NoError(t, err)
	spec, host := windowsVM(vmtypes.Files{}, "")
	spec.Options, spec.Firmware, spec.UseTPM = nil, vmspec.FirmwareUEFI, true
	spec.MaximumCPUs = 4
	spec.Network = []vmspec.Network{{
		Type: vmspec.NetworkTap, Device: "virtio-net-pci", Bridge: "br0", Ifname: "tap7", MAC: "52:54:00:11:22:33",
	}}
	spec.Drives = []vmspec.Drive{{Type: vmspec.DriveRaw, File: "/a.img"}}
	lines := []string{
		"helper swtpm", "listen swtpm", "    -tpmdev", "tap tap7", "socket console", "file .*fw-vars.fd", "rule cpus",
		"rule disk ", "    env ONE=1", "    access read /a",
	}
	spec.BootMenu = true
	whole, err := less.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	for _, line := range lines {
		require.Regexp(t, "(?m)^"+line, whole.Text())
	}
	spec.BootMenu = false
	p, err := less.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	for _, line := range lines {
		require.NotRegexp(t, "(?m)^"+line, p.Text())
	}
	require.Regexp(t, "(?m)^rule balloon", p.Text())
	require.Regexp(t, "(?m)^rule disks .*hotplug2,hotplug4,", p.Text())
	require.Regexp(t, "(?m)^    env TWO=2\n(.*\n)*    access write /b", p.Text())
}

// With the library's networks, cards with a tap have several queues, and keep the addresses of the stock type's cards.
func TestCardsWithSeveralQueues(t *testing.T) {
	t.Parallel()
	library := vmtypes.Source{Modules: map[string]string{"fast.star": `
load("@vmtypes//lib/network.star", "networks")
load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    names = ["tap tap7", "tap tap8"] + ["-netdev net%d" % n for n in range(4)] + ["-device nic%d" % n for n in range(4)]
    return combine(replace(standard(vm, host), remove = names), networks(vm, host, queues = vm.maximumCpus))
`}}.Library()
	fast, err := library.Load(t.Context(), "fast")
	require.NoError(t, err)
	spec, host := windowsVM(vmtypes.Files{}, "")
	spec.Options, spec.MaximumCPUs, spec.CurrentCPUs = nil, 4, 4
	spec.Network = []vmspec.Network{
		{Type: vmspec.NetworkTap, Device: "virtio-net-pci", Bridge: "br0", Ifname: "tap7", MAC: "52:54:00:11:22:33"},
		{Type: vmspec.NetworkMasquerade, Device: "virtio-net-pci", Ifname: "tap8", MAC: "52:54:00:11:22:34"},
		{Type: vmspec.NetworkUser, Device: "virtio-net-pci", MAC: "52:54:00:11:22:35"},
		{Type: vmspec.NetworkUser, Device: "e1000", MAC: "52:54:00:11:22:36"},
	}
	p, err := fast.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	text := p.Text()
	require.Regexp(t, `(?m)^tap tap7 bridge=br0 queues=4$`, text)
	require.Regexp(t, `(?m)^tap tap8 masquerade=auto mac=52:54:00:11:22:34 queues=4 hostname=test$`, text)
	require.Regexp(t, `-netdev tap,id=net0,fds=<tap7>:<tap7/1>:<tap7/2>:<tap7/3>,vhost=on\n`, text)
	require.Regexp(t, `-netdev tap,id=net1,fds=<tap8>:`, text)
	require.Regexp(t, `-device virtio-net-pci,id=nic0,netdev=net0,.*,mq=on,vectors=10,addr=`, text)
	require.Regexp(t, `-device virtio-net-pci,id=nic1,netdev=net1,.*,mq=on,vectors=10,addr=`, text)
	require.NotRegexp(t, `-device [^\n]*netdev=net[23][^\n]*mq=`, text)
	stock, err := vmtypes.Source{}.Library().Load(t.Context(), "standard")
	require.NoError(t, err)
	before, err := stock.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	place := regexp.MustCompile(`id=nic0,.*,(addr=.*)\n`)
	require.Equal(t, place.FindStringSubmatch(before.Text())[1], place.FindStringSubmatch(text)[1])
}
