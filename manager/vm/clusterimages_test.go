package vm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/manager/objects"
)

// clusterImage makes a ClusterVirtualImage, which is deleted with the test.
func (w *world) clusterImage(name, class, size string) *v1.ClusterVirtualImage {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: ClusterVirtualImage, metadata: {name: %s}, "+
		"spec: {persistentVolumeClaim: {storageClassName: %q, size: %s}, dataSource: {type: HTTP, http: {"+
		"url: 'https://example.org/x', checksum: {sha256: %s}}}}}", name, class, size, strings.Repeat("0a", 32)))
	c := &v1.ClusterVirtualImage{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, c))
	w.t.Cleanup(func() {
		err := w.client.Delete(w.playing(), &v1.ClusterVirtualImage{ObjectMeta: metav1.ObjectMeta{Name: name}})
		require.NoError(w.t, client.IgnoreNotFound(err))
	})
	return c
}

func withClusterImage(name string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks = nil
		vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindClusterVirtualImage, Name: name}}
	}
}

// An image of the cluster is stored in the namespace when something there refers to it, once for a VM, a disk and an
// attachment. It grows with the definition, and another definition of the name is another image.
func TestAClusterImage(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class, name := w.storage(false, false, "1Gi", "1Gi", "1Gi"), w.Name+"-cd"
	stored := diskof.ClusterImageName(name)
	w.vm("one", withClusterImage(name))
	missing := w.phase("one", v1.PhasePending, diskof.ReasonImageMissing)
	require.Equal(t, "spec.blockDeviceRefs[0]: there is no ClusterVirtualImage "+name+
		": the VM starts when it is created", missing.Status.Message)
	first := w.clusterImage(name, class, "1Gi")
	p := w.imports("vi-"+stored+"-import",
		`{"reason": "Imported", "format": "iso", "virtualSize": 1048576, "transferred": 1048576}`)
	require.Contains(t, p.Spec.Containers[0].Args, "--checksum=sha256:"+strings.Repeat("0a", 32))
	i := w.imageIs(stored, v1.DiskReady, "")
	require.True(t, metav1.IsControlledBy(i, first))
	require.Equal(t, "virtualimage.vmoperator.jdrupes.org/"+stored+"\n",
		w.Kubectl("get", "vi", "-l", v1.LabelClusterImage+"="+name, "-o", "name"))

	pod := w.boot("one")
	require.True(t, objects.Mounts(&pod.Spec, i.Status.Target.PersistentVolumeClaimName))
	require.True(t, objects.HasVolume(&pod.Spec, name+"-cvi"))
	config, _ := get(w, "one", &corev1.ConfigMap{})
	require.Regexp(t, `(?s)drives:.*type: ide-cd.*bootindex: 0.*file: /dev/`+name+`-cvi`,
		config.Data[objects.ConfigKey])

	eventually(w, "one", &v1.VirtualMachine{}, "says that it has the image", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.BlockDeviceRefs) == 1 && vm.Status.BlockDeviceRefs[0].Attached
	})

	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: root}, spec: {"+
		"persistentVolumeClaim: {storageClassName: %q, size: 1Gi}, dataSource: {type: ObjectRef, objectRef: {"+
		"kind: ClusterVirtualImage, name: %s}}}}", class, name))
	w.imports("vd-root-import", `{"reason": "Imported", "format": "raw", "virtualSize": 1048576}`)
	w.diskIs("root", v1.DiskReady, "")

	w.vm("two")
	other := w.boot("two")
	w.attachKind("att", "two", "ClusterVirtualImage", name)
	export := w.exportsTo("two", "ClusterVirtualImage/"+name)
	require.Equal(t, i.Status.Target.PersistentVolumeClaimName, export.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	w.ready(export)
	config = eventually(w, "two", &corev1.ConfigMap{}, "has the drive", func(c *corev1.ConfigMap) bool {
		return len(drivesIn(c).All) == 1
	})
	drives := drivesIn(config)
	ref := v1.AttachedDeviceRef{Kind: v1.AttachedClusterImage, Name: name}
	require.NotNil(t, drives.Of(ref))
	w.reports("two", other, drives.Revision, objects.AttachedSerial(ref), "Attached")
	w.attachmentIs("att", v1.AttachmentAttached, "", "")

	w.clusterImage(name, class, "2Gi")
	eventually(w, stored, &v1.VirtualImage{}, "has grown", func(i *v1.VirtualImage) bool {
		return i.Spec.PersistentVolumeClaim.Size.String() == "2Gi"
	})
	w.Kubectl("delete", "cvi", name)
	w.attachmentIs("att", v1.AttachmentAttached, "", "")
	w.vm("three", withClusterImage(name))
	w.phase("three", v1.PhasePending, diskof.ReasonImageMissing)
	second := w.clusterImage(name, class, "1Gi")
	w.Kubectl("delete", "vi", stored, "--ignore-not-found") // what collects garbage may be late
	eventually(w, stored, &v1.VirtualImage{}, "is that of the other one", func(i *v1.VirtualImage) bool {
		return metav1.IsControlledBy(i, second)
	})
}

// An image in the way is never taken for that of the cluster.
func TestAnImageInTheWayOfTheClusters(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class, name := w.storage(false, false, "1Gi"), w.Name+"-a"
	stored := diskof.ClusterImageName(name)
	w.image(stored, class, "1Gi")
	w.clusterImage(name, class, "1Gi")
	w.imports("vi-"+stored+"-import", `{"reason": "Imported", "format": "raw", "virtualSize": 1048576}`)
	w.imageIs(stored, v1.DiskReady, "")
	w.vm("web", withClusterImage(name))
	vm := w.phase("web", v1.PhaseFailed, diskof.ReasonImageFailed)
	require.Equal(t, "spec.blockDeviceRefs[0]: the ClusterVirtualImage "+name+": there is a VirtualImage "+stored+
		" that was not made of it: delete that, and it is stored under this name", vm.Status.Message)
	w.Kubectl("delete", "vi", stored)
	w.phase("web", v1.PhasePending, diskof.ReasonImageNotReady)
	eventually(w, stored, &v1.VirtualImage{}, "is stored", func(i *v1.VirtualImage) bool {
		return i.Labels[v1.LabelClusterImage] == name
	})
}
