package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
	"vmop/test/program"
)

// TestSnapshots has the scenarios that need storage that makes snapshots.
func TestSnapshots(t *testing.T) {
	l := newLab(t)
	require.NoError(t, program.LookInto("../../tools/csi"))
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
			"vd,vdsnapshot,volumesnapshots,pvc", "-o", "wide")
		t.Log(out, err)
	})
	require.NoError(t, l.AddCSI(t.Context()))
	t.Run("Disk", func(t *testing.T) { snapshotOfADisk(t, l) })
}

// snapshotOfADisk takes a snapshot of the disk of a running guest, and boots another guest with a
// disk of it: what the first one has written before is there, and what it has written since isn't.
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
	clustertest.Eventually(t, "the snapshot", func() error {
		err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "moment"}, &s)
		if err == nil && s.Status.Phase != v1.SnapshotReady {
			err = fmt.Errorf("its status is %+v", s.Status)
		}
		return err
	})
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

// withVirtualDisk adds a disk that is there for itself.
func withVirtualDisk(name string) func(*v1.VirtualMachineSpec) {
	return func(s *v1.VirtualMachineSpec) {
		s.BlockDeviceRefs = append(s.BlockDeviceRefs, v1.BlockDeviceRef{Kind: v1.KindVirtualDisk, Name: name})
	}
}

// writes fills 12 MiB of the first disk with text that n gives, syncs, and prints what reads does.
func writes(n int) string {
	return fmt.Sprintf("yes text-%d | head -c 12582912 | dd of=/dev/vda bs=1M conv=fsync 2>/dev/null; ", n) + reads
}

// reads prints the checksum of the first disk's first 12 MiB, as they are on the disk.
const reads = "blockdev --flushbufs /dev/vda; head -c 12582912 /dev/vda | sha256sum"
