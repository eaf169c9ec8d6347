package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// What a stock type has beside options is taken away by the words of its line in the plan,
// and the part that it is taken from stays as it is.
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
		"rule disk", "    env ONE=1", "    access read /a",
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
	require.Regexp(t, "(?m)^    env TWO=2\n(.*\n)*    access write /b", p.Text())
}
