package vmtypes_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/cloudinit"
	"vmop/cloudinit/disk"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A guest with secure boot runs without KVM. All its CPUs exist from the start, because it would hang after a hotplug.
// Its disks have names in their order, and the cloud-init disk comes last.
func TestGuestWithSecureBoot(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	image := guest.Tiny(t)
	s := newSandbox(t)
	log := s.path("images", "console.log")
	spec := vmspec.Spec{
		Name: "a,b", UUID: sample.UUID, Accelerator: vmspec.AcceleratorTCG, Firmware: vmspec.FirmwareSecure4M,
		UseTPM:      true,
		MaximumCPUs: 4, CurrentCPUs: 2, MaximumRAM: 512 * vmspec.MiB,
		Kernel: &vmspec.Kernel{
			Image: image.Kernel, Initrd: image.Initrd, CommandLine: guest.CommandLine + " loglevel=7",
		},
		Network:       []vmspec.Network{{Type: vmspec.NetworkUser}},
		SerialConsole: &vmspec.SerialConsole{Log: log},
	}
	for n := range 9 {
		spec.Drives = append(spec.Drives, vmspec.Drive{
			File:      s.image(fmt.Sprintf("%d.img", n), "raw"),
			Bootindex: new(n),
		})
	}
	p := s.launch(spec, sample.HostFacts{CloudInitImage: s.seed()})
	q, console := boot(t, p, log, "READY")
	require.Contains(t, console, "Secure boot enabled")
	require.Contains(t, console, "nocloud device=/dev/vdj ", "the tenth disk, after nine others")
	require.Contains(t, console, "cpus count=2 online=0-1 present=0-1 possible=0-3")
	require.Contains(t, console, "tpm version=2 ")
	q.ask("system_powerdown", nil, nil)
	q.refusal()
}

// seed writes a disk for cloud-init and returns its path.
func (s sandbox) seed() string {
	s.t.Helper()
	path := s.path("run", "seed.img")
	data, err := (&cloudinit.Config{}).Seed("one")
	require.NoError(s.t, err)
	require.NoError(s.t, disk.Write(path, data))
	return path
}

// boot runs a plan until a word appears in its console log, and returns the log.
func boot(t *testing.T, p *plan.Plan, log, word string) (q *qemu, console string) {
	t.Helper()
	guest.TakePlace(t)
	q = start(t, p)
	q.accepts(p)
	q.ask("cont", nil, nil)
	return q, waitForLine(t, q, log, word)
}

// launch returns the plan of the standard type for spec in the sandbox.
func (s sandbox) launch(spec vmspec.Spec, facts sample.HostFacts) *plan.Plan {
	s.t.Helper()
	return s.launchType("standard", spec, facts)
}

// launchType returns the plan of a stock type or an example for spec.
func (s sandbox) launchType(name string, spec vmspec.Spec, facts sample.HostFacts) *plan.Plan {
	s.t.Helper()
	spec = spec.WithDefaults()
	require.Empty(s.t, spec.Check())
	facts.DataDir, facts.RuntimeDir = s.path("data"), s.path("run")
	library, err := vmtypes.Open(examples)
	require.NoError(s.t, err)
	defer library.Close()
	vmType, err := library.Load(s.t.Context(), name)
	require.NoError(s.t, err)
	p, err := vmType.Launch(s.t.Context(), spec, facts.Host())
	require.NoError(s.t, err)
	p.QEMU.Executable = qemuOf(s.t, p)
	s.firmware(p)
	return p
}

// waitForLine waits until word appears in the guest's output, and returns the output.
func waitForLine(t *testing.T, q *qemu, log, word string) string {
	t.Helper()
	deadline := wait.Over(t)
	for {
		console, err := os.ReadFile(log)
		require.NoError(t, err)
		if bytes.Contains(console, []byte(word)) {
			return string(console)
		}
		select {
		case <-q.ended:
			t.Fatalf("QEMU ended: %s\nconsole:\n%s", q.stderr, console)
		case <-deadline:
			t.Fatalf("the guest does not say %s:\n%s", word, console)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// QEMU accepts more devices than slots: a hundred disks, including 36 SCSI disks, and twenty cards.
func TestQEMUAcceptsManyDevices(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	spec := vmspec.Spec{
		Name: "many", UUID: sample.UUID, Accelerator: vmspec.AcceleratorTCG, Firmware: vmspec.FirmwareBIOS,
		MaximumCPUs: 2,
		Display:     &vmspec.Display{VNC: &vmspec.VNC{}},
	}
	for n := range 100 {
		spec.Drives = append(spec.Drives, vmspec.Drive{File: s.image(fmt.Sprintf("%d.img", n), "raw")})
	}
	for range 20 {
		spec.Network = append(spec.Network, vmspec.Network{Type: vmspec.NetworkUser})
	}
	p := s.launch(spec, sample.HostFacts{})
	q := start(t, p)
	q.accepts(p)
	q.followsRules(p)
	var blocks []struct{ QDev string }
	q.ask("query-block", nil, &blocks)
	disks := 0
	for _, b := range blocks {
		if strings.Contains(b.QDev, "disk") {
			disks++
		}
	}
	require.Equal(t, 100, disks)
	q.quits()
}
