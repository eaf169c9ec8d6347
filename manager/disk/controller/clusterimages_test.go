package controller

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// createImage stores a cluster image.
func (w *world) createImage(image *v1.VirtualImage) error {
	switch {
	case w.refuses:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "virtualimages"}, image.Name, errKilled)
	case w.images[image.Name] != nil:
		return apierrors.NewAlreadyExists(schema.GroupResource{}, image.Name)
	}
	w.next(image)
	image.UID = types.UID("image-" + image.ResourceVersion)
	w.images[image.Name] = image.DeepCopy()
	w.events = append(w.events, func() { require.NoError(w.t, w.manager.images.book.Learn(image.DeepCopy())) })
	return nil
}

func clusterImage(uid, size string) *v1.ClusterVirtualImage {
	c := &v1.ClusterVirtualImage{ObjectMeta: metav1.ObjectMeta{Name: "debian", UID: types.UID(uid)}}
	c.Spec.PersistentVolumeClaim.Size = resource.MustParse(size)
	c.Spec.DataSource = v1.VirtualDiskSource{
		Type: v1.DiskSourceHTTP,
		HTTP: &v1.HTTPSource{URL: "https://example.org/x", Checksum: &v1.Checksum{SHA256: "aa"}},
	}
	return c
}

// wantsCluster returns the message of a VM that waits for the cluster image.
func (w *world) wantsCluster() (message string) {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	vm.Spec.VM.State = v1.Running
	vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindClusterVirtualImage, Name: "debian"}}
	_, did := w.manager.Attach(w.t.Context(), vm, nil, objects.DefaultSettings())
	require.IsType(w.t, decide.Waiting{}, did.Obstacle)
	return did.Obstacle.(decide.Waiting).Message
}

// A cluster image is stored exactly once when a VM names it, with the source that it defines, even if managers are
// killed.
func TestAClusterImageIsStoredOnce(t *testing.T) {
	t.Parallel()
	killed := 0
	for seed := range uint64(40) {
		w := newWorld(t, seed, 0.8)
		for range 20 {
			if w.cut {
				killed++
				w.start()
			}
			require.NoError(t, w.manager.images.book.ListingClusterImages(clusterImage("one", "1Gi")))
			message := w.wantsCluster()
			require.Contains(t, message, "spec.blockDeviceRefs[0]: the ClusterVirtualImage debian: ")
			w.reconcileImage("cvi-debian")
			for len(w.events) > 0 && w.random.IntN(2) == 0 {
				w.events[0]()
				w.events = w.events[1:]
			}
		}
		require.Len(t, w.images, 1)
		i := w.images["cvi-debian"]
		require.Equal(t, map[string]string{v1.LabelClusterImage: "debian"}, i.Labels)
		require.True(t, metav1.IsControlledBy(i, clusterImage("one", "1Gi")))
		require.Nil(t, i.OwnerReferences[0].BlockOwnerDeletion, "it would take a right to finalizers")
		require.Equal(t, clusterImage("one", "1Gi").Spec.DataSource, i.Spec.DataSource)
	}
	require.Positive(t, killed)
}

// The VM shows why a cluster image can't be stored, and an unused cluster image isn't stored.
func TestAClusterImageThatIsNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0)
	message := w.wantsCluster()
	require.Equal(t, "spec.blockDeviceRefs[0]: there is no ClusterVirtualImage debian: the VM starts when it is created",
		message)

	require.NoError(t, w.manager.images.book.ListingClusterImages(clusterImage("one", "1Gi")))
	w.manager = New(w.manager.opts)
	require.NoError(t, w.manager.book.Listing(nil, nil, nil, nil))
	message = w.wantsCluster()
	require.Contains(t, message, "has not been read yet", "nothing is known")

	w.start()
	require.NoError(t, w.manager.images.book.ListingClusterImages(clusterImage("one", "1Gi")))
	w.reconcileImage("cvi-debian")
	require.Empty(t, w.images, "nothing refers to it")
	w.refuses = true
	w.wantsCluster()
	w.reconcileImage("cvi-debian")
	message = w.wantsCluster()
	require.Contains(t, message, "it can't be stored in this namespace: ")
	w.refuses = false
	w.now = w.now.Add(2 * refusedRetry)
	w.reconcileImage("cvi-debian")
	require.Len(t, w.images, 1)
	d, err := w.manager.Image(v1.KindClusterVirtualImage, "debian")
	require.NoError(t, err)
	require.True(t, disk.Stored(d))

	require.NoError(t, w.manager.images.book.ListingClusterImages(clusterImage("two", "1Gi")))
	message = w.wantsCluster()
	require.Contains(t, message, "belongs to a ClusterVirtualImage debian that was deleted: waiting until it is gone")
	require.False(t, slices.Contains(w.manager.images.asked.allNames(), "other"))
}
