package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// Excerpts of the output of QEMU 7.2 and 10.0.
const (
	machines = `Supported machines are:
microvm              microvm (i386)
pc                   Standard PC (i440FX + PIIX, 1996) (alias of pc-i440fx-7.2)
pc-i440fx-7.2        Standard PC (i440FX + PIIX, 1996) (default)
q35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)
pc-q35-7.2           Standard PC (Q35 + ICH9, 2009)
pc-q35-7.1           Standard PC (Q35 + ICH9, 2009)
`
	cpus = `Available CPUs:
x86 486                   (alias configured by machine type)
x86 486-v1
x86 host                  processor with all supported host features
x86 Skylake-Client        (alias configured by machine type)
x86 Skylake-Server        (alias configured by machine type)

Recognized CPUID flags:
  3dnow 3dnowext 3dnowprefetch
`
	newerCPUs = `Available CPUs:
  486                   (alias configured by machine type)
  host                  processor with all supported host features
`
	devices = `Storage devices:
name "virtio-blk-pci", bus PCI, alias "virtio-blk"

Network devices:
name "e1000", bus PCI, alias "e1000-82540em", desc "Intel Gigabit Ethernet"
name "virtio-net-pci", bus PCI, alias "virtio-net"
`
)

// An unknown model is reported together with similar models.
func TestAdviceOnModels(t *testing.T) {
	t.Parallel()
	const qemu = "/usr/bin/qemu-system-x86_64"
	const machine, noMachine = ` "/usr/bin/qemu-system-x86_64 -machine help" lists all`, "unsupported machine type"
	const cpu, noCPU = ` "/usr/bin/qemu-system-x86_64 -cpu help" lists all`, "unable to find CPU model "
	const device = ` "/usr/bin/qemu-system-x86_64 -device help" lists all`
	const noDevice = " is not a valid device model name"
	for _, row := range []struct{ machine, said, list, want string }{
		{
			"pc-q35-99.0", noMachine, machines,
			"vm.machineType: this QEMU has no machine pc-q35-99.0; it has pc-q35-7.2, pc-q35-7.1 and 4 more;" + machine,
		},
		{
			"microwm", noMachine, machines,
			"vm.machineType: this QEMU has no machine microwm (did you mean microvm?);" + machine,
		},
		{"q35", noCPU + "'hosst'", cpus, "vm.cpuModel: this QEMU has no CPU hosst (did you mean host?);" + cpu},
		{
			"q35", noCPU + "'Skylake-Mobile'", cpus,
			"vm.cpuModel: this QEMU has no CPU Skylake-Mobile; it has Skylake-Client, Skylake-Server and 2 more;" + cpu,
		},
		{"q35", noCPU + "'zen'", newerCPUs, "vm.cpuModel: this QEMU has no CPU zen; it has 486, host;" + cpu},
		{"q35", noCPU + "'zen'", "", "vm.cpuModel: this QEMU has no CPU zen;" + cpu},
		{
			"q35", "-device virtio-net-pcii,id=nic0,netdev=net0: 'virtio-net-pcii'" + noDevice, devices,
			"vm.network[].device: this QEMU has no network card virtio-net-pcii (did you mean virtio-net-pci?);" + device,
		},
		{
			"q35", "-device virtio-blk-pci,id=nic0,netdev=net0: 'virtio-blk'" + noDevice, devices,
			"vm.network[].device: this QEMU has no network card virtio-blk; it has virtio-net-pci and 1 more;" + device,
		},
		{
			"pc-q35-99.1", noMachine, machines,
			"/data/machines.txt: the VM was first started with the machine pc-q35-99.1, which this QEMU doesn't have (is it an " +
				"older one?): run the VM with a QEMU that has it, or set updateVmType: true to take this QEMU's newest, which is " +
				"other hardware for the guest",
		},
		{
			"q35", "-device flux-capacitor: 'virtio-net-pcii'" + noDevice, devices,
			"this QEMU has no device virtio-net-pcii (did you mean virtio-net-pci?);" + device,
		},
		{
			"q35", "'virtio-gpu'" + noDevice, devices,
			"this QEMU has no device virtio-gpu; it has virtio-blk-pci, virtio-net-pci and 1 more;" + device,
		},
	} {
		made := vmWith(qemu)
		made.Plan.QEMU.Args = []plan.Option{{Flag: "-machine", Value: row.machine}}
		made.Pin.Machines = map[string]string{"q35": "pc-q35-99.1"}
		list := func(program, _ string) string {
			require.Equal(t, qemu, program)
			return row.list
		}
		require.Equal(t, row.want, adviceFor(made, row.said, list))
	}
}

// vmWith returns a VM with a plan that uses the program as QEMU.
func vmWith(qemu string) *prepare.VM {
	return &prepare.VM{Plan: &plan.Plan{QEMU: plan.Process{Executable: qemu}}, Pin: &prepare.Pin{}, DataDir: "/data"}
}

// Only a program of the system is executed for its help.
func TestHelpOfTheInstalledQEMU(t *testing.T) {
	t.Parallel()
	list := func(program, flag string) string { return helpOf(t.Context(), program, flag) }
	made := vmWith("/usr/bin/qemu-system-x86_64")
	require.Contains(t, adviceFor(made, "unable to find CPU model 'hust'", list), "(did you mean host?)")
	require.Contains(t, adviceFor(made, "'rtl813' is not a valid device model name", list), "(did you mean rtl8139?)")
	require.Contains(t, adviceFor(made, "-device e2000,netdev=n: 'rt2000' is not a valid device model name", list),
		"no network card rt2000; it has rtl8139 and ")
	require.Empty(t, list("/tmp/qemu", "cpu"))
}
