package disk_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// The names of disk and image claims and volumes are distinguishable from others.
func TestClaimNames(t *testing.T) {
	t.Parallel()
	image := disk.AsDisk(&v1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Name: "debian", UID: "i"}})
	require.True(t, disk.IsClaimName(disk.ClaimOf(image)))
	require.True(t, disk.IsClaimName(disk.ClaimOf(&v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: "root"}})))
	require.False(t, disk.IsClaimName("system-disk-web-0"))
}

// A ClusterVirtualImage resolves to its own image, or to a placeholder with the reason why the image is missing.
func TestTheImageOfAClusterImage(t *testing.T) {
	t.Parallel()
	c := &v1.ClusterVirtualImage{ObjectMeta: metav1.ObjectMeta{Name: "debian", UID: "one"}}
	c.Spec.DataSource = v1.VirtualDiskSource{
		Type: v1.DiskSourceHTTP, HTTP: &v1.HTTPSource{URL: "https://example.org/x"},
	}
	deleted := metav1.NewTime(time.Unix(1, 0))
	stored := func(change func(*v1.VirtualImage)) *v1.VirtualDisk {
		i := disk.StoredOf(c, "vms")
		i.UID = "image"
		i.Status = v1.VirtualImageStatus{
			Phase: v1.DiskReady, Target: v1.DiskTarget{UID: "claim"}, Import: &v1.DiskImport{CompletionTime: &deleted},
		}
		change(i)
		return disk.AsDisk(i)
	}
	owner := func(uid types.UID, kind string) func(*v1.VirtualImage) {
		return func(i *v1.VirtualImage) { i.OwnerReferences[0].UID, i.OwnerReferences[0].Kind = uid, kind }
	}
	none := func(*v1.VirtualImage) {}
	for name, row := range map[string]struct {
		c      *v1.ClusterVirtualImage
		i      *v1.VirtualDisk
		answer disk.Answer
		reason string
		says   string
	}{
		"it":      {c, stored(none), disk.Has, "", ""},
		"no such": {nil, stored(none), disk.Wait, disk.ReasonImageMissing, "there is no ClusterVirtualImage debian"},
		"not stored": {
			c, nil, disk.Wait, disk.ReasonImageNotReady, "it is being stored in this namespace, as the VirtualImage cvi-debian",
		},
		"a user's": {
			c, stored(func(i *v1.VirtualImage) { i.OwnerReferences = nil }), disk.Refuse, disk.ReasonImageFailed,
			"a VirtualImage cvi-debian already exists that was not created from it: delete that",
		},
		"of a disk": {
			c, stored(owner("one else", "VirtualDisk")), disk.Refuse, disk.ReasonImageFailed, "was not created from it",
		},
		"made of something else": {
			c, stored(func(i *v1.VirtualImage) { i.Spec.DataSource.HTTP.URL = "https://example.org/y" }), disk.Refuse,
			disk.ReasonImageFailed, "was not created from it",
		},
		"of an earlier one": {
			c, stored(owner("zero", "ClusterVirtualImage")), disk.Wait, disk.ReasonImageNotReady,
			"belongs to a ClusterVirtualImage debian that was deleted: waiting until it is gone",
		},
		"image deleted": {
			c, stored(func(i *v1.VirtualImage) { i.DeletionTimestamp = &deleted }), disk.Wait, disk.ReasonImageNotReady,
			"the VirtualImage cvi-debian is being deleted: it is stored again when the VirtualImage is gone",
		},
		"failed": {
			c, stored(func(i *v1.VirtualImage) { i.Status.Phase, i.Status.Message = v1.DiskFailed, "too large" }),
			disk.Refuse, disk.ReasonImageFailed, "the ClusterVirtualImage debian: too large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := disk.OfCluster(row.c, row.i)
			answer, reason, says := disk.AvailableImage(v1.KindClusterVirtualImage, "debian", of)
			require.Equal(t, row.answer, answer, says)
			require.Equal(t, row.reason, reason)
			require.Contains(t, says, row.says)
			require.Equal(t, of == row.i && of != nil, disk.Stored(of), "nothing else is mounted")
		})
	}
	going := c.DeepCopy()
	going.DeletionTimestamp = &deleted
	_, reason, _ := disk.AvailableImage(v1.KindClusterVirtualImage, "debian", disk.OfCluster(going, stored(none)))
	require.Equal(t, disk.ReasonImageDeleted, reason)
	_, _, says := disk.AvailableImage(v1.KindClusterVirtualImage, "debian", disk.Unavailable("debian", "no right"))
	require.Equal(t, "the ClusterVirtualImage debian: no right", says)
	of, may := disk.ClusterImageOf(disk.ClusterImageName("debian"))
	require.True(t, may)
	require.Equal(t, "debian", of)
}
