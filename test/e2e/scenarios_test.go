package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// The seed document's example runs unchanged, except that the cluster provides the volume of its disk. It uses KVM
// where possible.
func seedExample(t *testing.T, l *lab) {
	device, err := l.Block(t.Context(), "system-disk", diskSize)
	require.NoError(t, err)
	text, err := os.ReadFile("testdata/seed.yaml")
	require.NoError(t, err)
	v := l.adoptTest(t, "test-vm")
	l.applyText(t, strings.ReplaceAll(string(text), "DEVICE", device))
	v.runs()
	require.Equal(t, "privileged", v.now().Status.Privileges[0].Name)
	v.claim("system-disk-test-vm-0")
	v.claim("runner-data-test-vm-0")
	v.condition(v1.ConditionRunning, metav1.ConditionTrue)
	require.Contains(t, l.kubectl(t, "get", "secret", "test-vm-display-secret", "-o", "jsonpath={.data}"),
		"display-password")
	wait.For(t, "SPICE to answer", func() error {
		conn, err := l.Dial(t.Context(), "tcp", net.JoinHostPort(v.pod().Status.PodIP, "5910"))
		if err != nil {
			return err
		}
		return conn.Close()
	})

	v.cutOff()
	v.delete()
	v.claim("system-disk-test-vm-0")
}

// A guest boots in a pod that passes Pod Security "restricted", reports it on its serial console, and follows changes
// of its resource in the same QEMU.
func liveChanges(t *testing.T, l *lab) {
	v := l.create(t, tiny("live", func(s *v1.VirtualMachineSpec) {
		s.VM.MaximumCPUs, s.VM.CurrentCPUs = new(int32(2)), new(int32(1))
		s.VM.Disks = []v1.Disk{{CDROM: &v1.CDROM{}}}
		s.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}}
		s.CloudInit = &v1.CloudInit{MetaData: map[string]string{"instance-id": "i-live"}}
	}))
	qemu := v.runs()
	guest := v.console()
	require.Contains(t, guest.await(`TINY .* nocloud (.*)`)[1], "instance-id=i-live hostname=live")
	guest.booted()
	require.Empty(t, v.now().Status.Privileges)
	v.restricted()

	v.change(func(s *v1.VirtualMachineSpec) { s.VM.CurrentCPUs = new(int32(2)) })
	guest.await(`TINY .* hotplug cpu add cpu1 online=0-1`)
	v.until("to have 2 CPUs", func(now *v1.VirtualMachine) bool { return now.Status.CPUs == 2 })

	ram := quantity("128Mi")
	v.change(func(s *v1.VirtualMachineSpec) { s.VM.CurrentRAM = &ram })
	v.until("to have less memory", func(now *v1.VirtualMachine) bool {
		have := quantity(now.Status.RAM)
		return have.Cmp(ram) == 0
	})

	v.change(func(s *v1.VirtualMachineSpec) { s.VM.Disks[0].CDROM.Image = "cd.iso" })
	wait.For(t, "the CD", func() error {
		blocks := v.runner("qmp", "query-block")
		if !strings.Contains(blocks, "/cd.iso") {
			return fmt.Errorf("QEMU has %s", blocks)
		}
		return nil
	})

	serial := v.now().Status.DisplayPasswordSerial
	l.kubectl(t, "patch", "secret", "live-display-secret", "--type=merge", "-p",
		`{"stringData": {"display-password": "new", "password-expiry": "never"}}`)
	v.until("to have another password", func(now *v1.VirtualMachine) bool {
		return now.Status.DisplayPasswordSerial > serial
	})

	v.change(func(s *v1.VirtualMachineSpec) { s.ResetCounter = new(int64(1)) })
	guest.booted()

	v.condition(v1.ConditionReady, metav1.ConditionTrue)
	require.Equal(t, qemu, v.qemu(), "all that in one QEMU")
	require.NotContains(t, v.managerLog(t.Context()), "display-password")
}

// A stopped and restarted VM is the same machine with the same disks, both block devices and files.
func stopAndStart(t *testing.T, l *lab) {
	v := l.create(t, tiny("cycle", withDisk("first", corev1.PersistentVolumeBlock),
		withDisk("", corev1.PersistentVolumeBlock),
		withDisk("file", corev1.PersistentVolumeFilesystem)))
	v.runs()
	guest := v.console().booted()
	guest.ask("echo first disk | dd of=/dev/vda conv=fsync 2>/dev/null")
	guest.ask("echo second disk | dd of=/dev/vdb conv=fsync 2>/dev/null")
	guest.ask("echo third disk | dd of=/dev/vdc conv=fsync 2>/dev/null")
	require.Equal(t, fmt.Sprint(diskSize/512), guest.ask("cat /sys/block/vdc/size"))
	v.change(func(s *v1.VirtualMachineSpec) {
		s.VM.Disks[2].VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(
			2*diskSize, resource.BinarySI)
	})
	wait.For(t, "the file to grow", func() error {
		if size := guest.ask("cat /sys/block/vdc/size"); size != fmt.Sprint(2*diskSize/512) {
			return fmt.Errorf("it has %s sectors", size)
		}
		return nil
	})
	uuid := v.now().Status.UUID
	require.NotEmpty(t, uuid)
	v.set(v1.Stopped)
	guest.await(`TINY .* powerbutton pressed`)
	stopped := v.phase(v1.PhaseStopped)
	require.Equal(t, "asked", stopped.Status.Runner.Outcome.Cause)
	require.Zero(t, stopped.Status.CPUs)
	v.podGone()

	v.set(v1.Running)
	v.runs()
	guest = v.console().booted()
	require.Equal(t, "first disk", guest.ask("head -n 1 /dev/vda"))
	require.Equal(t, "second disk", guest.ask("head -n 1 /dev/vdb"))
	require.Equal(t, "third disk", guest.ask("head -n 1 /dev/vdc"))
	require.Equal(t, uuid, v.now().Status.UUID)
	v.set(v1.Stopped)
	v.phase(v1.PhaseStopped)
	v.delete()
	for _, name := range []string{"runner-data-cycle-0", "first-disk-cycle-0", "disk-1-cycle-0", "file-disk-cycle-0"} {
		v.claim(name)
	}
}

// Deleting the pod restarts the VM: the guest shuts down first, and its data is kept.
func podDeleted(t *testing.T, l *lab) {
	v := l.create(t, tiny("evicted", withDisk("system", corev1.PersistentVolumeBlock)))
	v.runs()
	guest := v.console().booted()
	guest.ask("echo kept >/dev/vda; sync")
	pod := v.pod()
	l.kubectl(t, "delete", "pod", v.podName(), "--wait=false")
	guest.await(`TINY .* powerbutton pressed`)
	v.podOtherThan(pod)
	v.runs()
	require.Equal(t, "kept", v.console().booted().ask("head -n 1 /dev/vda"))
	require.Equal(t, v1.Running, v.now().Spec.VM.State)
}

// A guest that powers itself off stays off with guestShutdownStops. Otherwise it is started again.
func guestPowersOff(t *testing.T, l *lab) {
	v := l.create(t, tiny("moody", func(s *v1.VirtualMachineSpec) { s.GuestShutdownStops = true }))
	v.runs()
	pod := v.pod()
	v.console().booted().tell("poweroff")
	v.until("to be set to Stopped", func(now *v1.VirtualMachine) bool { return now.Spec.VM.State == v1.Stopped })
	require.Equal(t, "guest shutdown", v.phase(v1.PhaseStopped).Status.Runner.Outcome.Cause)
	v.podGone()

	v.change(func(s *v1.VirtualMachineSpec) { s.GuestShutdownStops, s.VM.State = false, v1.Running })
	pod = v.podOtherThan(pod)
	v.runs()
	v.console().booted().tell("poweroff")
	v.podOtherThan(pod)
	v.runs()
	v.console().booted()
	require.Equal(t, v1.Running, v.now().Spec.VM.State)
}

// A VM can be deleted before its guest runs. Its disks are kept.
func deletedWhileStarting(t *testing.T, l *lab) {
	v := l.create(t, tiny("hasty", withDisk("system", corev1.PersistentVolumeBlock)))
	wait.For(t, "a pod", func() error {
		if v.pod() == nil {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	v.delete()
	v.podGone()
	v.claim("system-disk-hasty-0")
	v.claim("runner-data-hasty-0")
}

// A VM can be deleted while its guest is still shutting down. Its disks are kept.
func deletedWhileStopping(t *testing.T, l *lab) {
	v := l.create(t, tiny("stubborn", withDisk("system", corev1.PersistentVolumeBlock), func(s *v1.VirtualMachineSpec) {
		s.VM.Kernel.CommandLine += " tiny.nopower"
		s.VM.PowerdownTimeout = new(int32(10))
	}))
	v.runs()
	guest := v.console().booted()
	v.set(v1.Stopped)
	guest.await(`TINY .* powerbutton pressed`)
	v.phase(v1.PhaseStopping)
	v.delete()
	v.podGone()
	v.claim("system-disk-stubborn-0")
}

// With --cascade=orphan the VM outlives its resource, and a new resource with the same name adopts it.
func orphanedAndAdopted(t *testing.T, l *lab) {
	v := l.create(t, tiny("orphan"))
	qemu := v.runs()
	pod := v.pod()
	v.delete("--cascade=orphan")
	require.Equal(t, qemu, v.qemu())

	v = l.create(t, tiny("orphan"))
	v.runs()
	uid := string(v.now().UID)
	wait.For(t, "the stateful set to be the new VM's", func() error {
		owner := l.kubectl(t, "get", "statefulset", "orphan", "-o", "jsonpath={.metadata.ownerReferences[*].uid}")
		if owner != uid {
			return fmt.Errorf("its owner is %s", owner)
		}
		return nil
	})
	require.Equal(t, qemu, v.qemu())
	require.Equal(t, pod.UID, v.pod().UID)
	v.set(v1.Stopped)
	v.phase(v1.PhaseStopped)
	v.podGone()
}

// The runner may be killed at any time: the guest keeps running, and the next runner takes it over.
func runnerKilled(t *testing.T, l *lab) {
	v := l.create(t, tiny("killed", func(s *v1.VirtualMachineSpec) {
		s.VM.MaximumCPUs, s.VM.CurrentCPUs = new(int32(2)), new(int32(1))
	}))
	qemu := v.runs()
	guest := v.console().booted()
	guest.ask("touch /tmp/alive")
	runner := v.youngestRunner()
	kill(t, runner)
	ended(t, runner)
	v.change(func(s *v1.VirtualMachineSpec) { s.VM.CurrentCPUs = new(int32(2)) })
	v.until("to have 2 CPUs", func(now *v1.VirtualMachine) bool { return now.Status.CPUs == 2 })
	require.Equal(t, qemu, v.qemu())
	require.Equal(t, "/tmp/alive", v.console().ask("ls /tmp/alive"))
	require.Zero(t, v.pod().Status.ContainerStatuses[0].RestartCount)
}

// adoptTest returns a VM that the test creates without create.
func (l *lab) adoptTest(t *testing.T, name string) *clusterVM {
	t.Helper()
	v := &clusterVM{lab: l, t: t, name: name}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			t.Log(v.describe(ctx))
		}
		err := l.client.Delete(ctx, &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
		require.NoError(t, client.IgnoreNotFound(err))
	})
	return v
}

// restricted requires that a namespace that enforces Pod Security "restricted" admits the VM's pod.
func (v *clusterVM) restricted() {
	v.t.Helper()
	pod := v.pod()
	try := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: "restricted"}, Spec: *pod.Spec.DeepCopy(),
	}
	try.Spec.ServiceAccountName, try.Spec.DeprecatedServiceAccount = "default", ""
	text, err := json.Marshal(try)
	require.NoError(v.t, err)
	cmd := v.KubectlCommand(v.t.Context(), "create", "--dry-run=server", "-f", "-")
	cmd.Stdin = strings.NewReader(string(text))
	out, err := cmd.CombinedOutput()
	require.NoError(v.t, err, "%s", out)
}

// runner runs a verb of vmrunner in the pod.
func (v *clusterVM) runner(args ...string) string {
	v.t.Helper()
	return v.kubectl(v.t, append([]string{"exec", v.podName(), "--", "vmrunner"}, args...)...)
}

// youngestRunner returns the process ID of the VM's runner, the child of vmrunner init.
func (v *clusterVM) youngestRunner() int {
	v.t.Helper()
	all := v.processesOf(string(v.pod().UID), "vmrunner")
	require.GreaterOrEqual(v.t, len(all), 2, "init and the runner")
	return all[1]
}
