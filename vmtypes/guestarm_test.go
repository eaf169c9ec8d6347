package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/vmspec"
)

// A Linux for arm64 starts with UEFI on an emulated machine, finds all devices, and reacts to the power button.
func TestGuestOnARM64(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	image := guest.Arm64(t)
	s := newSandbox(t)
	log := s.path("images", "console.log")
	p := s.launchType("arm64", vmspec.Spec{
		Name: "arm", UUID: sample.UUID, Accelerator: vmspec.AcceleratorTCG, Firmware: vmspec.FirmwareUEFI, UseTPM: true,
		MaximumCPUs: 4, CurrentCPUs: 2, MaximumRAM: 512 * vmspec.MiB,
		Kernel: &vmspec.Kernel{
			Image: image.Kernel, Initrd: image.Initrd,
			CommandLine: "console=ttyAMA0 quiet panic=-1",
		},
		Network: []vmspec.Network{{Type: vmspec.NetworkUser}},
		Drives: []vmspec.Drive{
			{File: s.image("disk.img", "raw")},
			{Type: vmspec.DriveIDECD, File: s.image("cd.iso", "raw")},
		},
		Display:       &vmspec.Display{VNC: &vmspec.VNC{}},
		SerialConsole: &vmspec.SerialConsole{Log: log},
	}, sample.HostFacts{Files: []string{"debian-12-arm64"}, CloudInitImage: s.seed()})
	q, console := boot(t, p, log, "READY")
	require.Contains(t, console, "firmware efi=1 secureboot=0")
	require.Contains(t, console, "nocloud device=/dev/vdb ")
	require.Contains(t, console, "machine uuid="+sample.UUID)
	require.Contains(t, console, "cpus count=2 online=0-1 present=0-1 possible=0-1")
	require.Contains(t, console, "tpm version=2 ")
	require.Contains(t, console, "block sr0 bytes=1048576")
	require.Contains(t, console, "net eth0 mac="+vmspec.MAC(sample.UUID, 0)+" carrier=1")
	require.Contains(t, console, "port name=org.qemu.guest_agent.0")
	require.NotContains(t, console, "error=")
	q.ask("system_powerdown", nil, nil)
	q.refusal()
}
