package disk_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// The claim is created when the snapshot is ready and fits. Untrusted files of the snapshot stay untrusted on the new
// disk.
func TestDiskOfASnapshot(t *testing.T) {
	t.Parallel()
	d := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "1"}}
	d.Spec.PersistentVolumeClaim.Size = resource.MustParse("1Gi")
	d.Spec.PersistentVolumeClaim.VolumeMode = corev1.PersistentVolumeFilesystem
	d.Spec.DataSource = &v1.VirtualDiskSource{
		Type: v1.DiskSourceObjectRef, ObjectRef: &v1.DiskSourceRef{Kind: "VirtualDiskSnapshot", Name: "s"},
	}
	s := disk.Situation{Disk: d, Classes: disk.Classes{Known: true, Class: &storagev1.StorageClass{}}}
	is := func(step disk.Step, reason string) {
		t.Helper()
		require.Equal(t, step, disk.Next(s))
		require.Equal(t, reason, disk.StatusOf(s).Reason)
	}
	is(disk.Nothing, disk.ReasonSnapshotMissing)
	s.Source = &v1.VirtualDiskSnapshot{}
	is(disk.Nothing, disk.ReasonSnapshotNotReady)
	s.Source.Status = v1.VirtualDiskSnapshotStatus{
		Phase: v1.SnapshotReady, RestoreSize: "2Gi", VolumeSnapshotName: "vds-s", Untrusted: "the image x",
	}
	is(disk.Nothing, disk.ReasonTooSmall)
	s.Source.Status.RestoreSize = "1024Mi"
	is(disk.Create, disk.ReasonProvisioning)
	require.Equal(t, "vds-s", disk.ClaimSource(d, s.Source).Name)
	require.Equal(t, "the image x", disk.StatusOf(s).Untrusted)

	owner := *metav1.NewControllerRef(d, v1.GroupVersion().WithKind("VirtualDisk"))
	s.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "vd-data", UID: "c", OwnerReferences: []metav1.OwnerReference{owner},
	}}
	s.Claim.Status.Phase = corev1.ClaimBound
	s.Source = nil
	require.Contains(t, disk.StatusOf(s).Untrusted, "no longer exists")
	require.True(t, disk.Whole(d))
	d.Status.Target.UID, d.Status.Untrusted = "c", "the image x"
	require.Equal(t, "the image x", disk.StatusOf(s).Untrusted)
	d.Spec.PersistentVolumeClaim.VolumeMode, d.Status = corev1.PersistentVolumeBlock, v1.VirtualDiskStatus{}
	require.Empty(t, disk.StatusOf(s).Untrusted, "a device has no files")
}
