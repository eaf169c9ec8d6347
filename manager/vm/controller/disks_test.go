package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// storage creates a storage class with the namespace's name and one volume per size. With late, volumes are bound by
// the scheduler, which the test plays.
func (w *world) storage(late, grows bool, sizes ...string) string {
	w.t.Helper()
	mode := storagev1.VolumeBindingImmediate
	if late {
		mode = storagev1.VolumeBindingWaitForFirstConsumer
	}
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: w.Name},
		Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &grows, VolumeBindingMode: &mode,
	}
	w.create(class)
	w.t.Cleanup(func() { _ = w.client.Delete(w.playing(), class) })
	for i, size := range sizes {
		w.volume(fmt.Sprintf("%s-%d", w.Name, i), size)
	}
	return class.Name
}

// volume creates a block volume of the storage class.
func (w *world) volume(name, size string) {
	w.t.Helper()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec = corev1.PersistentVolumeSpec{
		StorageClassName: w.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:   corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		VolumeMode: new(corev1.PersistentVolumeBlock),
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{
			Path: "/dev/none",
		}},
	}
	there := corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpExists}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{there}}},
	}}
	w.create(volume)
	w.t.Cleanup(func() { _ = w.client.Delete(w.playing(), volume) })
}

// blankDisk creates a VirtualDisk.
func (w *world) blankDisk(name, class, size string) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: %s}, "+
		"spec: {persistentVolumeClaim: {storageClassName: %q, size: %s}}}", name, class, size))
}

// diskIs waits until a disk has a phase and a reason.
func (w *world) diskIs(name string, phase v1.DiskPhase, reason string) *v1.VirtualDisk {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualDisk{}, string(phase)+" "+reason, func(d *v1.VirtualDisk) bool {
		return d.Status.Phase == phase && d.Status.Reason == reason
	})
}

// diskOf waits until a disk is attached to a VM, or to no VM if vm is "".
func (w *world) diskOf(name, vm string) *v1.VirtualDisk {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualDisk{}, "is of "+vm, func(d *v1.VirtualDisk) bool {
		inUse := meta.IsStatusConditionTrue(d.Status.Conditions, v1.DiskConditionInUse)
		return diskof.Holder(d) == vm && inUse == (vm != "")
	})
}

func withDisks(names ...string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks, vm.Spec.BlockDeviceRefs = nil, nil
		for _, name := range names {
			ref := v1.BlockDeviceRef{Kind: v1.KindVirtualDisk, Name: name}
			vm.Spec.BlockDeviceRefs = append(vm.Spec.BlockDeviceRefs, ref)
		}
	}
}

// Creating a blank disk takes at most three writes, and the disk can be attached to one VM after another.
func TestABlankDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	via := newWire()
	w.manage(via)
	class := w.storage(false, true, "1Gi")
	w.blankDisk("blank-disk", class, "1Gi")
	d := w.diskIs("blank-disk", v1.DiskReady, "")
	require.Equal(t, "1Gi", d.Status.Capacity)
	require.Equal(t, "vd-blank-disk", d.Status.Target.PersistentVolumeClaimName)
	require.Regexp(t, `^NAME +PHASE +CAPACITY +PROGRESS +AGE\nblank-disk +Ready +1Gi +\d+s\n$`, w.Kubectl("get", "vd"))
	require.Empty(t, via.read())
	var writes []string
	for _, write := range via.written() {
		if strings.Contains(write, "/namespaces/"+w.Name+"/") && !strings.Contains(write, "/events") {
			writes = append(writes, write) // without classes, which other tests create
		}
	}
	require.LessOrEqual(t, len(writes), 3, "the claim, the status, and once more if its volume came later: %v", writes)

	w.vm("linux-vm", withDisks("blank-disk"))
	w.diskOf("blank-disk", "linux-vm")
	pod := w.boot("linux-vm")
	require.True(t, slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "vd-blank-disk"
	}), pod.Spec.Volumes)
	require.Equal(t, []corev1.VolumeDevice{{Name: "blank-disk-vd", DevicePath: "/dev/blank-disk-vd"}},
		pod.Spec.Containers[0].VolumeDevices)
	config, _ := get(w, "linux-vm", &corev1.ConfigMap{})
	require.Regexp(t, `(?s)drives:.*bootindex: 0.*resource: /dev/blank-disk-vd.*serial: blank-disk`,
		config.Data[objects.ConfigKey])
	err := w.client.Delete(t.Context(), d)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "the disk is attached to the VM linux-vm: stop the VM")

	w.vm("other-vm", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks = []v1.Disk{{VirtualDisk: &v1.VirtualDiskRef{Name: "blank-disk"}, Bootindex: new(int32(3))}}
	})
	waits := w.phase("other-vm", v1.PhasePending, diskof.ReasonInUse)
	require.Equal(t, "spec.vm.disks[0].virtualDisk: the VirtualDisk blank-disk is attached to the VM linux-vm: "+
		"this VM starts when the other VM has stopped", waits.Status.Message)
	w.edit("linux-vm", stopped)
	w.diskOf("blank-disk", "linux-vm")
	w.gone("linux-vm", pod)
	w.diskOf("blank-disk", "other-vm")
	w.boot("other-vm")
	w.edit("linux-vm", running)
	w.phase("linux-vm", v1.PhasePending, diskof.ReasonInUse)

	// A deleted VM releases the disk when its pod has ended.
	w.Kubectl("delete", "vm", "other-vm", "--cascade=background")
	other, _ := get(w, "other-vm-0", &corev1.Pod{})
	w.remove(other)
	w.diskOf("blank-disk", "linux-vm")
}
