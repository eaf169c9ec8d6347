package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/test/guest"
)

// emulator is the tag of the runner's image that emulates arm64.
const emulator = "with-arm64"

// armImages loads an image of the runner that emulates arm64, built as operators do, into all nodes. It adds a kernel
// for arm64 to the image repository.
func (l *lab) armImages(t *testing.T) error {
	folder := filepath.Join(l.Dir, "repository", "arm64")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	kernel := guest.Arm64(t)
	for _, file := range []string{kernel.Kernel, kernel.Initrd} {
		content, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, filepath.Base(file)), content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	images := filepath.Join(l.Dir, "images", emulator)
	err := exec.CommandContext(t.Context(), "go", "run", "vmop/deploy/images", "-version", emulator,
		"-with", "qemu-system-arm qemu-efi-aarch64", "-o", images, "runner").Run()
	if err != nil {
		return err
	}
	return l.Load(t.Context(), filepath.Join(images, "runner.tar"))
}

// An arm64 guest is not scheduled on nodes of another architecture unless it names them. There it needs a runner image
// that emulates arm64.
func onARM64(t *testing.T, l *lab) {
	made := make(chan error, 1)
	go func() { made <- l.armImages(t) }()
	disk := withDisk("", corev1.PersistentVolumeBlock)
	v := l.create(t, tiny("arm", disk, onAllNodes, func(s *v1.VirtualMachineSpec) {
		s.VMType.Source = "arm64"
		s.VM.Firmware, s.VM.UseTPM = "uefi", new(true)
		s.VM.MaximumCPUs, s.VM.CurrentCPUs = new(int32(2)), new(int32(1))
		s.VM.MaximumRAM = new(quantity("384Mi"))
		s.VM.Kernel = &v1.Kernel{
			Image: "arm64/vmlinuz", Initrd: "arm64/initrd.gz", CommandLine: "console=ttyAMA0 quiet panic=-1",
		}
		s.VM.Disks = append(s.VM.Disks, v1.Disk{CDROM: &v1.CDROM{}})
	}))
	unplaced := v.until("to have no node", func(now *v1.VirtualMachine) bool {
		return now.Status.Phase == v1.PhasePending && now.Status.Reason == decide.ReasonUnschedulable
	})
	require.Contains(t, unplaced.Status.Message, "a guest for arm64 needs nodes with kubernetes.io/arch=arm64")

	v.change(func(s *v1.VirtualMachineSpec) {
		s.NodeSelector = map[string]string{corev1.LabelArchStable: runtime.GOARCH}
	})
	without := v.phase(v1.PhaseFailed)
	require.Contains(t, without.Status.Message, "none of these files exists in the runner's image: "+
		"/usr/bin/qemu-system-aarch64")
	require.Contains(t, without.Status.Message,
		"docs/tasks/kubernetes-images.md shows how an image gets Debian's package "+
			"qemu-system-arm")

	require.NoError(t, <-made)
	v.change(func(s *v1.VirtualMachineSpec) { s.Image = &v1.Image{Source: "vmop/runner:" + emulator} })
	v.isARMMachine()
}

// isARMMachine requires that a VM with an arm64 guest has UEFI, a TPM and disks, follows changes of its resource, moves
// to another pod, and is the same machine after a shutdown.
func (v *clusterVM) isARMMachine() {
	t, qemu := v.t, v.runs()
	v.restricted()
	inside := v.console()
	resets := inside.await(`^TINY .* firmware efi=1(?s:.*)^TINY .* tpm version=2 .* resets=(\d+)`)[1]
	inside.booted()
	require.Equal(t, "aarch64", inside.ask("uname -m"))
	require.Equal(t, "arm64", v.now().Status.Architecture)
	const kept = `printf '\007\000\000\000kept' >/tmp/v; cat /tmp/v >` + variable + readVariable
	require.Equal(t, "kept", inside.ask(kept))
	inside.ask("echo kept >/dev/vda; sync")

	ram := quantity("320Mi")
	v.change(func(s *v1.VirtualMachineSpec) {
		s.VM.CurrentRAM, s.VM.Disks[1].CDROM.Image = &ram, "cd.iso"
	})
	v.until("to have less memory", func(now *v1.VirtualMachine) bool {
		have := quantity(now.Status.RAM)
		return have.Cmp(ram) == 0
	})
	const reads = "until dd if=/dev/sr0 of=/dev/null 2>/dev/null; do usleep 50000; done; echo read"
	require.Equal(t, "read", inside.ask(reads))
	require.Equal(t, qemu, v.qemu())

	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boot := inside.ask(bootID)
	inside = v.moves("arm-moved", "type: Migrate")
	require.Equal(t, boot, inside.ask(bootID))
	require.Equal(t, "read", inside.ask(reads))

	v.change(func(s *v1.VirtualMachineSpec) { s.VM.CurrentCPUs = new(int32(2)) })
	v.condition(v1.ConditionRestartRequired, metav1.ConditionTrue)
	require.Equal(t, "vm.currentCpus", v.now().Status.RestartAwaitingChanges[0].Path)
	v.set(v1.Stopped)
	inside.await(`TINY .* powerbutton pressed`)
	v.phase(v1.PhaseStopped)
	v.podGone()
	v.set(v1.Running)
	v.runs()
	inside = v.console()
	require.NotEqual(t, resets, inside.await(`^TINY .* tpm version=2 .* resets=(\d+)`)[1], "the TPM remembers")
	inside.booted()
	require.Equal(t, "2", inside.ask("nproc"))
	require.Equal(t, "kept", inside.ask("head -n 1 /dev/vda"))
	require.Equal(t, "kept", inside.ask(readVariable[2:]), "a variable of UEFI")
	v.set(v1.Stopped)
	v.phase(v1.PhaseStopped)
}

// variable is a UEFI variable. The guest sees it as a file with four bytes of attributes before the value.
const (
	variable     = "/sys/firmware/efi/efivars/Vmop-6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	readVariable = "; tail -c 4 " + variable
)
