package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/program"
	"vmop/test/wait"
)

// Scenarios that need storage with snapshots. From here on, the CSI driver also stores the runners' data.
func snapshots(t *testing.T, l *lab) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		logs, _ := filepath.Glob(filepath.Join(l.Dir, "cs*.log"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			t.Logf("%s:\n%s", log, text[max(0, len(text)-4000):])
		}
		out, err := l.Kubectl(context.WithoutCancel(t.Context()), "-n", namespace, "get",
			"vd,vdsnapshot,vmsnapshot,volumesnapshots,pvc", "-o", "wide")
		t.Log(out, err)
	})
	l.storesByCSI(t)
	t.Run("Disk", func(t *testing.T) { snapshotOfADisk(t, l) })
	t.Run("VM", func(t *testing.T) { snapshotOfAVM(t, l) })
}

// storesByCSI puts runners' data on storage with snapshots until the test ends.
func (l *lab) storesByCSI(t *testing.T) {
	t.Helper()
	require.NoError(t, program.LookInto("../../tools/csi"))
	require.NoError(t, l.AddCSI(t.Context()))
	l.reconfigure(t, "storageClassName: "+storage, "storageClassName: "+cluster.CSIClass)
	l.kubectl(t, "rollout", "restart", "deployment/vm-operator")
	l.kubectl(t, "rollout", "status", "deployment/vm-operator", "--timeout=4m")
}

// snapshotOfADisk takes a snapshot of the disk of a running guest, and boots another guest with a disk from it. The
// disk contains what the first guest wrote before the snapshot, but not what it wrote later.
func snapshotOfADisk(t *testing.T, l *lab) {
	require.NoError(t, l.client.Create(t.Context(), &v1.VirtualDisk{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "origin"},
		Spec: v1.VirtualDiskSpec{PersistentVolumeClaim: v1.VirtualDiskClaim{
			StorageClassName: new(cluster.CSIClass), Size: resource.MustParse("16Mi"),
		}},
	}))
	v := l.create(t, tiny("writes", withVirtualDisk("origin")))
	v.runs()
	inside := v.console().booted()
	before := inside.ask(writes(1))
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDiskSnapshot, metadata: {name: moment},
  spec: {virtualDiskName: origin}}`)
	var s v1.VirtualDiskSnapshot
	l.ready(t, "moment", &s, func() v1.SnapshotPhase { return s.Status.Phase })
	require.False(t, *s.Status.Consistent, "the guest has no agent")
	require.NotNil(t, s.Status.CreationTime)
	after := inside.ask(writes(2))
	require.NotEqual(t, before, after)

	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: copy},
  spec: {persistentVolumeClaim: {storageClassName: csi, size: 32Mi},
  dataSource: {type: ObjectRef, objectRef: {kind: VirtualDiskSnapshot, name: moment}}}}`)
	l.diskIs(t, "copy", v1.DiskReady, "")
	other := l.create(t, tiny("reads", withVirtualDisk("copy")))
	other.runs()
	copied := other.console().booted()
	require.Equal(t, before, copied.ask(reads))
	require.Equal(t, "33554432", copied.ask("blockdev --getsize64 /dev/vda"))
	require.Equal(t, after, inside.ask(reads))
}

// snapshotOfAVM takes a snapshot of a running VM with two disks, and boots another VM created from it. Its disks
// contain what the first VM wrote before the snapshot.
func snapshotOfAVM(t *testing.T, l *lab) {
	disks := func(s *v1.VirtualMachineSpec) {
		withDisk("system", corev1.PersistentVolumeBlock)(s)
		withDisk("data", corev1.PersistentVolumeBlock)(s)
		for i := range s.VM.Disks {
			s.VM.Disks[i].VolumeClaimTemplate.Spec.StorageClassName = new(cluster.CSIClass)
		}
	}
	v := l.create(t, tiny("kept", disks))
	v.runs()
	inside := v.console().booted()
	before := []string{inside.ask(writes(1)), inside.ask(onSecondDisk(writes(2)))}
	require.NotEqual(t, before[0], before[1])
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineSnapshot, metadata: {name: all},
  spec: {virtualMachineName: kept, requiredConsistency: false}}`)
	var s v1.VirtualMachineSnapshot
	l.ready(t, "all", &s, func() v1.SnapshotPhase { return s.Status.Phase })
	require.False(t, *s.Status.Consistent, "the guest has no agent")
	require.Len(t, s.Status.Volumes, 3, "two disks and the runner's data")
	require.NotEqual(t, before[0], inside.ask(writes(3)))

	again := l.create(t, tiny("restored", disks, func(spec *v1.VirtualMachineSpec) {
		spec.DataSource = &v1.VirtualMachineDataSource{Kind: "VirtualMachineSnapshot", Name: "all"}
	}))
	again.runs()
	restored := again.console().booted()
	require.Equal(t, before, []string{restored.ask(reads), restored.ask(onSecondDisk(reads))})
	const uuid = "cat /sys/class/dmi/id/product_uuid"
	require.Equal(t, inside.ask(uuid), restored.ask(uuid), "it is in the runner's data")
	again.set(v1.Stopped)
	again.podGone()

	// The first VM is restored from it, and both disks have the earlier data.
	v.set(v1.Stopped)
	v.podGone()
	l.kubectl(t, "patch", "vms."+v1.GroupName, "kept", "--type=merge", "-p", `{"spec": {"claimNameSuffix": "r1",
  "dataSource": {"kind": "VirtualMachineSnapshot", "name": "all"}, "vm": {"state": "Running"}}}`)
	v.runs()
	inside = v.console().booted()
	require.Equal(t, before, []string{inside.ask(reads), inside.ask(onSecondDisk(reads))})
	require.NotEmpty(t, l.kubectl(t, "get", "pvc", "system-disk-kept-0", "system-disk-kept-0.r1", "-o", "name"))
	copyOfItsClaim(t, l, v, before[0])
}

// copyOfItsClaim creates a disk from the first claim of a running VM, after the VM has stopped. Another VM reads the
// written data on it.
func copyOfItsClaim(t *testing.T, l *lab, v *clusterVM, written string) {
	const of = "system-disk-kept-0.r1"
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: taken},
  spec: {persistentVolumeClaim: {storageClassName: csi, size: 32Mi},
  dataSource: {type: ObjectRef, objectRef: {kind: PersistentVolumeClaim, name: `+of+`}}}}`)
	l.diskIs(t, "taken", v1.DiskPending, "SourceForbidden")
	l.kubectl(t, "label", "pvc", of, v1.LabelDataSource+"=true")
	l.diskIs(t, "taken", v1.DiskPending, "SourceInUse")
	v.set(v1.Stopped)
	l.diskIs(t, "taken", v1.DiskReady, "")
	other := l.create(t, tiny("takes", withVirtualDisk("taken")))
	other.runs()
	require.Equal(t, written, other.console().booted().ask(reads))
}

// ready waits until a snapshot is ready. phase returns its phase.
func (l *lab) ready(t *testing.T, name string, s client.Object, phase func() v1.SnapshotPhase) {
	t.Helper()
	wait.For(t, "the snapshot "+name, func() error {
		err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s)
		if err == nil && phase() != v1.SnapshotReady {
			err = fmt.Errorf("its phase is %q: %+v", phase(), s)
		}
		return err
	})
}

// onSecondDisk changes a command to use the second disk.
func onSecondDisk(command string) string { return strings.ReplaceAll(command, "/dev/vda", "/dev/vdb") }

// withVirtualDisk adds a VirtualDisk.
func withVirtualDisk(name string) func(*v1.VirtualMachineSpec) {
	return func(s *v1.VirtualMachineSpec) {
		s.BlockDeviceRefs = append(s.BlockDeviceRefs, v1.BlockDeviceRef{Kind: v1.KindVirtualDisk, Name: name})
	}
}

// writes returns a command that fills 256 KiB of the first disk with text that contains n, syncs, and prints the output
// of reads.
func writes(n int) string {
	return fmt.Sprintf("yes text-%d | head -c 262144 | dd of=/dev/vda bs=256k conv=fsync 2>/dev/null; ", n) + reads
}

// reads prints the checksum of the first disk's first 256 KiB, bypassing the cache. An emulated guest needs 10 s for 4
// MiB.
const reads = "blockdev --flushbufs /dev/vda; head -c 262144 /dev/vda | sha256sum"
