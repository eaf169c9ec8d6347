package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

const imageName = "image-0"

// isOfImage reports whether an object is an image, or belongs to an image.
func isOfImage(o client.Object) bool {
	_, is := o.(*v1.VirtualImage)
	return is || strings.HasPrefix(o.GetName(), "vi-")
}

// anySource returns a random source: nil, a web server, or a disk or image that may be missing.
func (w *world) anySource(of string) *v1.VirtualDiskSource {
	ref := &v1.DiskSourceRef{Kind: string(v1.KindVirtualImage), Name: imageName}
	switch w.random.IntN(5) {
	case 0:
		return nil
	case 4:
		ref.Kind, ref.Name = v1.KindClaim, ownClaim
	case 1:
		return &v1.VirtualDiskSource{
			Type: v1.DiskSourceHTTP, HTTP: &v1.HTTPSource{URL: "https://example.org/image"},
		}
	case 2:
		ref.Kind, ref.Name = string(v1.KindVirtualDisk), fmt.Sprintf("disk-%d", w.random.IntN(diskCount))
		if ref.Name == of {
			return nil
		}
	}
	return &v1.VirtualDiskSource{Type: v1.DiskSourceObjectRef, ObjectRef: ref}
}

// defineImage creates or deletes an image.
func (w *world) defineImage(name string) {
	i := w.images[name]
	switch {
	case i == nil:
		i = &v1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		i.Spec.PersistentVolumeClaim.Size = resource.MustParse("1Gi")
		i.Spec.DataSource = v1.VirtualDiskSource{
			Type: v1.DiskSourceHTTP, HTTP: &v1.HTTPSource{URL: "https://example.org/image"},
		}
		w.next(i)
		i.UID = types.UID("image-" + i.ResourceVersion)
		w.images[name] = i
		w.see(i, false)
	case w.random.IntN(8) == 0:
		delete(w.images, name)
		w.see(i, true)
	}
}

// patchImage writes the status of an image.
func (w *world) patchImage(o *v1.VirtualImage, version, status json.RawMessage) error {
	have := w.images[o.Name]
	switch {
	case have == nil:
		return missing(o.Name)
	case strings.Trim(string(version), `"`) != have.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{}, o.Name, errors.New("it has another version"))
	}
	have = have.DeepCopy()
	have.Status = v1.VirtualImageStatus{}
	require.NoError(w.t, json.Unmarshal(status, &have.Status))
	w.next(have)
	w.images[have.Name] = have
	w.see(have, false)
	have.DeepCopyInto(o)
	return nil
}

func (w *world) reconcileImage(name string) {
	if w.cut {
		return
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if _, err := w.manager.images.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		require.ErrorIs(w.t, err, errKilled)
	}
}

// claimOfImage returns the claim of the image that a VM got.
func claimOfImage(got Attached) string {
	for _, d := range got.Devices {
		if d.Kind == v1.KindVirtualImage {
			return d.Claim
		}
	}
	return "none"
}

// owned reports whether the owner of an object exists.
func (w *world) owned(o client.Object) bool {
	name := disk.Owner(o)
	if isOfImage(o) {
		i := w.images[name]
		return i != nil && metav1.IsControlledBy(o, i)
	}
	d := w.disks[name]
	return d != nil && metav1.IsControlledBy(o, d)
}

// used reports whether a pod prevents the deletion of a claim.
func (w *world) used(claim string) bool {
	for _, pods := range []map[string]*corev1.Pod{w.pods, w.works} {
		for _, pod := range pods {
			if len(pod.Spec.SchedulingGates) == 0 && !finished(pod) && objects.Mounts(&pod.Spec, claim) {
				return true
			}
		}
	}
	return false
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// sourceOf returns the claim that a pod copies; "" if it copies none.
func sourceOf(pod *corev1.Pod) string {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "source" })
	if i < 0 {
		return ""
	}
	return pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName
}

// isRead reports whether a pod is copying a claim.
func (w *world) isRead(claim string) bool {
	for _, pod := range w.works {
		if pod.Status.Phase == corev1.PodRunning && sourceOf(pod) == claim {
			return true
		}
	}
	return false
}

// beginsToRead reports whether the claim that a pod copies exists. If so, it records the volume in the pod.
func (w *world) beginsToRead(pod *corev1.Pod) bool {
	source := sourceOf(pod)
	if source == "" {
		return true
	}
	claim := w.claims[source]
	if claim == nil {
		return false
	}
	pod.Annotations = map[string]string{"read": string(claim.UID)}
	w.copies++
	if source == ownClaim {
		w.ofClaim++
	}
	return true
}

// copied returns what a pod has written.
func (w *world) copied(pod *corev1.Pod) string {
	uid := types.UID(pod.Annotations["read"])
	if uid == "" {
		return whole
	}
	if of, filled := w.data[uid]; filled {
		return of
	}
	if strings.HasPrefix(sourceOf(pod), "vi-") {
		return "nothing"
	}
	return whole // a blank disk
}

// waitsForCopy reports whether a disk can't be created yet: a VM uses its source, or disks are copies of each other.
func (w *world) waitsForCopy(name string, depth int) bool {
	d := w.disks[name]
	source := d.Spec.DataSource
	if disk.SourceClaim(d) != "" && !disk.Whole(d) {
		vm := w.vms[ownVM]
		return vm != nil && vm.Spec.DesiredState() == v1.Running
	}
	if source == nil || source.ObjectRef == nil || source.ObjectRef.Kind != string(v1.KindVirtualDisk) ||
		disk.Whole(d) {
		return false
	}
	of := w.disks[source.ObjectRef.Name]
	return depth > diskCount || disk.Holder(of) != "" || w.waitsForCopy(of.Name, depth+1)
}
