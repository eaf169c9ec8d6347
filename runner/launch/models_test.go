package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// Excerpts of what QEMU 7.2 and 10.0 print.
const (
	machines = "Supported machines are:\nmicrovm              microvm (i386)\n" +
		"pc                   Standard PC (i440FX + PIIX, 1996) (alias of pc-i440fx-7.2)\n" +
		"pc-i440fx-7.2        Standard PC (i440FX + PIIX, 1996) (default)\n" +
		"q35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)\n" +
		"pc-q35-7.2           Standard PC (Q35 + ICH9, 2009)\npc-q35-7.1           Standard PC (Q35 + ICH9, 2009)\n"
	cpus = "Available CPUs:\nx86 486                   (alias configured by machine type)\n" +
		"x86 486-v1                \nx86 host                  processor with all supported host features \n" +
		"x86 Skylake-Client        (alias configured by machine type)\nx86 Skylake-Server        (alias)\n" +
		"\nRecognized CPUID flags:\n  3dnow 3dnowext 3dnowprefetch\n"
	newerCPUs = "Available CPUs:\n  486                   (alias configured by machine type)\n" +
		"  host                  processor with all supported host features\n"
	devices = "Storage devices:\nname \"virtio-blk-pci\", bus PCI, alias \"virtio-blk\"\n\nNetwork devices:\n" +
		"name \"e1000\", bus PCI, alias \"e1000-82540em\", desc \"Intel Gigabit Ethernet\"\n" +
		"name \"e1000e\", bus PCI, desc \"Intel 82574L GbE Controller\"\nname \"rtl8139\", bus PCI\n" +
		"name \"virtio-net-pci\", bus PCI, alias \"virtio-net\"\n\nInput devices:\nname \"ccid-card-emulated\", bus ccid-bus\n"
)

// A model that QEMU has not is answered with those that are near.
func TestAdviceOnModels(t *testing.T) {
	t.Parallel()
	const qemu = "/usr/bin/qemu-system-x86_64"
	for _, row := range []struct{ machine, said, list, want string }{
		{
			"pc-q35-99.0", "unsupported machine type\nUse -machine help to list supported machines", machines,
			`vm.machineType: this QEMU has no machine pc-q35-99.0; it has pc-q35-7.2, pc-q35-7.1 and 4 others; ` +
				`"/usr/bin/qemu-system-x86_64 -machine help" lists all`,
		},
		{
			"microwm", "unsupported machine type", machines, `vm.machineType: this QEMU has no machine microwm (did you mean microvm?); ` +
				`"/usr/bin/qemu-system-x86_64 -machine help" lists all`,
		},
		{
			"q35", "unable to find CPU model 'hosst'", cpus, `vm.cpuModel: this QEMU has no CPU hosst (did you mean host?); ` +
				`"/usr/bin/qemu-system-x86_64 -cpu help" lists all`,
		},
		{
			"q35", "unable to find CPU model 'Skylake-Mobile'", cpus, `vm.cpuModel: this QEMU has no CPU Skylake-Mobile; it has ` +
				`Skylake-Client, Skylake-Server and 2 others; "/usr/bin/qemu-system-x86_64 -cpu help" lists all`,
		},
		{
			"q35", "unable to find CPU model 'zen'", newerCPUs, `vm.cpuModel: this QEMU has no CPU zen; it has 486, host; ` +
				`"/usr/bin/qemu-system-x86_64 -cpu help" lists all`,
		},
		{
			"q35", "-device virtio-net-pcii,id=nic0,netdev=net0: 'virtio-net-pcii' is not a valid device model name", devices,
			`vm.network[].device: this QEMU has no network card virtio-net-pcii (did you mean virtio-net-pci?); ` +
				`"/usr/bin/qemu-system-x86_64 -device help" lists all`,
		},
		{"q35", "-device flux: 'flux' is not a valid device model name", devices, ""},
		{
			"q35", "unable to find CPU model 'zen'", "", `vm.cpuModel: this QEMU has no CPU zen; ` +
				`"/usr/bin/qemu-system-x86_64 -cpu help" lists all`,
		},
	} {
		var made plan.Plan
		made.QEMU.Executable = qemu
		made.QEMU.Args = []plan.Option{{Flag: "-machine", Value: row.machine}}
		list := func(program, flag string) string {
			require.Equal(t, qemu, program)
			return row.list
		}
		require.Equal(t, row.want, adviceFor(&made, row.said, list))
	}
}

// Only a program of the system is asked.
func TestHelpOfTheInstalledQEMU(t *testing.T) {
	t.Parallel()
	qemu := new(plan.Plan)
	qemu.QEMU.Executable = "/usr/bin/qemu-system-x86_64"
	require.Contains(t, adviceFor(qemu, "unable to find CPU model 'hust'", help), "(did you mean host?)")
	require.Contains(t, adviceFor(qemu, "-device rtl813,netdev=n: 'rtl813' is not a valid device model name", help),
		"(did you mean rtl8139?)")
	require.Empty(t, help("/tmp/qemu", "-cpu"))
}
