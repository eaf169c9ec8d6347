package changes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// rich returns a machine with every section, on a computer without KVM.
func rich() Machine {
	return Machine{
		DataDir: "/data/rich", RuntimeDir: "/run/rich", CloudInit: "sha256:1", VMType: "standard",
		DisplayPassword: true,
		VM: vmspec.Spec{
			Name: "rich", UUID: "2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21", MachineType: "q35",
			Accelerator: vmspec.AcceleratorTCG,
			Firmware:    vmspec.FirmwareUEFI4M, BootMenu: true, UseTPM: true,
			Kernel:   &vmspec.Kernel{Image: "/boot/vmlinuz", Initrd: "/boot/initrd", CommandLine: "console=ttyS0"},
			CPUModel: "max", MaximumCPUs: 8, CurrentCPUs: 2, CoresPerDie: 2, ThreadsPerCore: 2,
			MaximumRAM: 4 * vmspec.GiB, CurrentRAM: 2 * vmspec.GiB, RTCBase: "utc", RTCClock: "rt",
			PowerdownTimeout: new(vmspec.Seconds(900)),
			Network: []vmspec.Network{
				{
					Type: vmspec.NetworkTap, Bridge: "br0",
					Lease: &vmspec.Lease{
						Address: "10.66.10.14/24", Gateway: "10.66.10.1",
						Nameservers: &vmspec.Nameservers{
							Addresses: []string{"10.66.10.1"}, Search: []string{"example.org"},
						},
						Routes: []vmspec.Route{{To: "10.7.0.0/16", Via: "10.66.10.2"}},
					},
				},
				{
					Type: vmspec.NetworkMasquerade, Net: "10.1.0.0/24",
					Ports:    []vmspec.PortForward{{Host: 8080, Guest: 80, Address: "192.0.2.1"}},
					AllPorts: &vmspec.AllPorts{Keep: []int{7443}},
				},
				{Type: vmspec.NetworkUser, Net: "10.2.0.0/24", Ports: []vmspec.PortForward{
					{Host: 2222, Guest: 22},
					{Protocol: "udp", Host: 53},
				}},
			},
			Drives: []vmspec.Drive{
				{File: "/images/root.qcow2", Format: "qcow2", Bootindex: new(0)},
				{Device: "/dev/vg/data", ReadOnly: true, Limits: &vmspec.DiskLimits{IOPS: 100, Bytes: vmspec.MiB}},
				{Type: vmspec.DriveIDECD, File: "/images/install.iso", Bootindex: new(1)},
				{Type: vmspec.DriveIDECD, Bus: "scsi"},
				{
					File: "/images/made.img", Source: "ours/1", SourceChecksum: "md5:00112233445566778899aabbccddeeff",
					Limits: &vmspec.DiskLimits{IOPSRead: 1, IOPSWrite: 2, BytesRead: 3, BytesWrite: 4},
				},
			},
			Display: &vmspec.Display{
				Outputs: 2, LoggedInUser: "test",
				Spice: &vmspec.Spice{Port: 5910, Address: "127.0.0.1", StreamingVideo: "filter", USBRedirects: new(1)},
				VNC:   &vmspec.VNC{Port: 5911, Address: "127.0.0.1"},
			},
			SerialConsole: &vmspec.SerialConsole{Enabled: new(true), Log: "/logs/console"},
			Options:       map[string]any{"panic": "pause"},
		}.WithDefaults(),
	}
}

// plain returns the smallest machine.
func plain() Machine {
	return Machine{DataDir: "/data/plain", RuntimeDir: "/run/plain", VMType: "standard", VM: vmspec.Spec{
		Name: "plain", UUID: "2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21", Accelerator: vmspec.AcceleratorTCG,
		Network: []vmspec.Network{},
	}.WithDefaults()}
}

// copied returns a deep copy of a machine.
func copied(m Machine) Machine {
	m.VM = m.VM.WithDefaults()
	return m
}

// launcher launches machines of the stock types and the types in testdata, on a computer where every file exists, and
// counts the launches.
func launcher(tb testing.TB) (launch Launch, count *int) {
	tb.Helper()
	library, err := vmtypes.Open("testdata")
	require.NoError(tb, err)
	types := map[string]*vmtypes.Type{}
	for _, name := range []string{"standard", "options", "watchdog", "copy"} {
		types[name], err = library.Load(tb.Context(), name)
		require.NoError(tb, err)
	}
	require.NoError(tb, library.Close())
	count = new(int)
	return func(ctx context.Context, m Machine) (*plan.Plan, error) {
		*count++
		host := vmtypes.Host{
			DataDir: m.DataDir, RuntimeDir: m.RuntimeDir, Arch: "x86_64", HasDisplayPassword: m.DisplayPassword,
			Exists: func(string) bool { return true },
		}
		if m.CloudInit != "" {
			host.CloudInitImage = m.RuntimeDir + "/cloud-init.img"
		}
		return types[m.VMType].Launch(ctx, m.VM, host)
	}, count
}

// pending returns the changes between two machines. The first is running with its plan's rules.
func pending(tb testing.TB, launch Launch, running, wanted Machine) []status.Change {
	tb.Helper()
	p, err := launch(tb.Context(), running)
	require.NoError(tb, err)
	changes, err := Pending(tb.Context(), launch, running, wanted, Live(p.Rules, wanted.VM))
	require.NoError(tb, err)
	return changes.Changes
}

func pathsOf(changes []status.Change) []string {
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	return paths
}
