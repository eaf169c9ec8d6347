package disk_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// If a node must finish growing a file system, the status shows that the disk waits for a VM, unless a VM uses it.
func TestTheRestOfGrowingWaitsForAVM(t *testing.T) {
	t.Parallel()
	size := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
	}
	kind := v1.GroupVersion().WithKind(string(v1.KindVirtualDisk))
	reason := func(holder string, is corev1.PersistentVolumeClaimConditionType) string {
		s := disk.Situation{Disk: of(v1.DiskResizing, "c", holder), Claim: &corev1.PersistentVolumeClaim{}}
		s.Disk.Spec.PersistentVolumeClaim.Size = resource.MustParse("2Gi")
		s.Disk.UID = "d"
		s.Claim.Name, s.Claim.UID = disk.ClaimName("data"), "c"
		s.Claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.Disk, kind)}
		s.Claim.Spec.Resources.Requests = size("2Gi")
		s.Claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size("1Gi")}
		s.Claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: is}}
		status := disk.StatusOf(s)
		require.Equal(t, v1.DiskResizing, status.Phase)
		require.Contains(t, status.Message, "the volume grows from 1Gi to 2Gi")
		return status.Reason
	}
	require.Equal(t, disk.ReasonGrowing, reason("", corev1.PersistentVolumeClaimResizing))
	require.Equal(t, disk.ReasonGrowing, reason("web", corev1.PersistentVolumeClaimFileSystemResizePending))
	require.Equal(t, disk.ReasonGrowsLater, reason("", corev1.PersistentVolumeClaimFileSystemResizePending))
}
