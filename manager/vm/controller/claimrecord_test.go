package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/test/wait"
)

// recorded waits until a claim's record contains the claim's UID and the reason not to trust its files.
func (w *world) recorded(claim *corev1.PersistentVolumeClaim, untrusted string) *corev1.ConfigMap {
	w.t.Helper()
	name := objects.ClaimRecordName(claim.Name)
	return eventually(w, name, &corev1.ConfigMap{}, "it is the record", func(record *corev1.ConfigMap) bool {
		owner := metav1.GetControllerOf(record)
		return owner != nil && owner.UID == claim.UID && record.Annotations[objects.AnnotationUntrusted] == untrusted
	})
}

// deleted deletes a running VM with all its dependents.
func (w *world) deleted(vm string, pod *corev1.Pod) {
	w.t.Helper()
	object, _ := get(w, vm, &v1.VirtualMachine{})
	require.NoError(w.t, w.client.Delete(w.t.Context(), object))
	w.removeWhenTold(pod)
}

// A deleted and recreated VM runs with its old claims, even though its pod needs more rights than "restricted" and no
// administrator has listed the claims.
func TestAVMThatIsCreatedAgainHasItsClaims(t *testing.T) {
	t.Parallel()
	w := begin(t)
	files := func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	}
	w.vm("web", privileged, files)
	pod := w.boot("web")
	claim, _ := get(w, "runner-data-web-0", &corev1.PersistentVolumeClaim{})
	disk, _ := get(w, "system-disk-web-0", &corev1.PersistentVolumeClaim{})
	w.recorded(claim, "")
	w.recorded(disk, "")
	w.deleted("web", pod)
	w.vm("web", privileged, files)
	again := w.boot("web")
	require.NotEqual(t, pod.UID, again.UID)
	for _, before := range []*corev1.PersistentVolumeClaim{claim, disk} {
		now, _ := get(w, before.Name, &corev1.PersistentVolumeClaim{})
		require.Equal(t, before.UID, now.UID)
	}

	w.vm("plain")
	w.boot("plain")
	_, is := get(w, objects.ClaimRecordName("runner-data-plain-0"), &corev1.ConfigMap{})
	require.False(t, is, "a pod that gets no more needs no record")
}

// A claim that replaces the manager's claim isn't trusted, because the record is deleted with the first claim.
func TestAPlantedClaimHasNoRecord(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", privileged)
	pod := w.boot("web")
	claim, _ := get(w, "runner-data-web-0", &corev1.PersistentVolumeClaim{})
	record := w.recorded(claim, "")
	finalizers := func(text string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": `+text+`}}`))
		require.NoError(t, w.client.Patch(t.Context(), record, patch))
	}
	finalizers(`["example.com/hold"]`) // the garbage collector can't be faster
	w.deleted("web", pod)

	require.NoError(t, w.client.Delete(t.Context(), claim))
	w.withoutFinalizers(claim)
	planted := claim.DeepCopy()
	planted.ObjectMeta = metav1.ObjectMeta{
		Name: claim.Name, Namespace: w.Name, Labels: claim.Labels, Annotations: claim.Annotations,
	}
	planted.Spec.VolumeName, planted.Status = "", corev1.PersistentVolumeClaimStatus{}
	wait.Until(t, func() bool { return w.client.Create(t.Context(), planted) == nil })
	w.vm("web", privileged)
	require.Contains(t, w.phase("web", v1.PhaseFailed, decide.ReasonNotTrusted).Status.Message,
		"because of its origin: the claim was not created for this VM")
	finalizers("null")
	wait.Until(t, func() bool {
		have, is := get(w, record.Name, &corev1.ConfigMap{})
		return !is || have.UID != record.UID
	}, "the record goes")
	_, is := get(w, record.Name, &corev1.ConfigMap{})
	require.False(t, is, "nor is there another")
}

// withoutFinalizers lets the deletion of a claim complete.
func (w *world) withoutFinalizers(claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
	require.NoError(w.t, client.IgnoreNotFound(w.client.Patch(w.t.Context(), claim.DeepCopy(), patch)))
}

// A volume that an untrusted image could write to is recorded as untrusted before the image runs. The record survives
// the VM and applies to every later user of the claim, even to another VM with a disk of the same claim name.
func TestTheRecordOfAnUntrustedVolume(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("x-disk-web", privileged)
	pod := w.boot("x-disk-web")
	claim, _ := get(w, "runner-data-x-disk-web-0", &corev1.PersistentVolumeClaim{})
	w.recorded(claim, "")
	w.edit("x-disk-web", stopped)
	w.gone("x-disk-web", pod)
	w.phase("x-disk-web", v1.PhaseStopped, decide.ReasonStopped)

	belongs := func(vm string) {
		claim, _ := get(w, claim.Name, &corev1.PersistentVolumeClaim{})
		claim.Labels[objects.LabelInstance] = vm
		delete(claim.Annotations, objects.AnnotationUntrusted)
		require.NoError(t, w.client.Update(t.Context(), claim))
	}
	belongs("web")
	w.vm("web", func(vm *v1.VirtualMachine) {
		vm.Spec.Image = &v1.Image{Source: "evil.example/x"}
		vm.Spec.VM.Disks = []v1.Disk{{VolumeClaimTemplate: disk("runner-data-x", "1Mi")}}
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	})
	w.pod("web")
	w.recorded(claim, "the image evil.example/x")
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.NoError(t, w.client.Delete(t.Context(), vm))

	belongs("x-disk-web")
	w.edit("x-disk-web", running)
	require.Contains(t, w.phase("x-disk-web", v1.PhaseFailed, decide.ReasonNotTrusted).Status.Message,
		"because of the image evil.example/x")
	vm, _ = get(w, "x-disk-web", &v1.VirtualMachine{})
	require.NoError(t, w.client.Delete(t.Context(), vm))
	w.vm("x-disk-web", privileged)
	require.Contains(t, w.phase("x-disk-web", v1.PhaseFailed, decide.ReasonNotTrusted).Status.Message,
		"because of the image evil.example/x")
}

// After a disk is removed from the definition while claims are announced, the VM's status can still be written.
func TestAnAnnouncedDiskGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.manage(nil)
	vm := w.vm("web", movable, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	})
	of := func(n int) []v1.Volume {
		vm = eventually(w, "web", vm, "has claims", func(vm *v1.VirtualMachine) bool {
			announced := func(v v1.Volume) bool { return strings.HasPrefix(v.UID, "creating:") }
			return vm.Status.ObservedGeneration == vm.Generation && len(vm.Status.Volumes) == n &&
				!slices.ContainsFunc(vm.Status.Volumes, announced)
		})
		return vm.Status.Volumes
	}
	former := of(2)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate.Metadata.Name = "other" })
	require.Subset(t, of(3), former)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks = nil })
	require.Subset(t, of(3), former)
}
