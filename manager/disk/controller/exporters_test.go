package controller

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// askForExport simulates a user who requests the data of a disk or image, or withdraws the request.
func (w *world) askForExport(name string) {
	var o client.Object
	if i := w.images[imageName]; i != nil && w.random.IntN(4) == 0 {
		o = i.DeepCopy()
	} else if d := w.disks[name]; d != nil {
		o = d.DeepCopy()
	} else {
		return
	}
	o.SetAnnotations(nil)
	if w.random.IntN(3) > 0 {
		until := w.now.Add(time.Duration(w.random.IntN(60)) * time.Second)
		o.SetAnnotations(map[string]string{v1.AnnotationExport: until.Format(time.RFC3339Nano)})
	}
	w.annotate(o)
}

func (w *world) annotate(o client.Object) {
	w.next(o)
	switch o := o.(type) {
	case *v1.VirtualDisk:
		w.disks[o.Name] = o
	case *v1.VirtualImage:
		w.images[o.Name] = o
	}
	w.see(o, false)
}

// forget removes an export request.
func (w *world) forget(o client.Object, version string) error {
	var have client.Object
	switch o.(type) {
	case *v1.VirtualDisk:
		if d := w.disks[o.GetName()]; d != nil {
			have = d.DeepCopy()
		}
	case *v1.VirtualImage:
		if i := w.images[o.GetName()]; i != nil {
			have = i.DeepCopy()
		}
	}
	switch {
	case have == nil:
		return missing(o.GetName())
	case have.GetResourceVersion() != version:
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it has another version"))
	}
	have.SetAnnotations(nil)
	w.annotate(have)
	switch o := o.(type) {
	case *v1.VirtualDisk:
		have.(*v1.VirtualDisk).DeepCopyInto(o)
	case *v1.VirtualImage:
		have.(*v1.VirtualImage).DeepCopyInto(o)
	}
	return nil
}

// send simulates the kubelet of an export pod, which starts, ends, or is lost.
func (w *world) send(name string) {
	pod := w.works[name].DeepCopy()
	if pod == nil {
		return
	}
	switch {
	case pod.DeletionTimestamp != nil:
		delete(w.works, name)
		w.see(pod, true)
		return
	case len(pod.Spec.SchedulingGates) > 0:
		return
	case w.random.Float64() < w.fails/4: // kubectl delete pod
		pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	case pod.Status.Phase == corev1.PodPending:
		require.NotEmpty(w.t, pod.Annotations[disk.AnnotationKey])
		if !w.beginsToRead(pod) {
			return
		}
		w.copies--
		w.sent++
		pod.Status.Phase = corev1.PodRunning
	case pod.Status.Phase != corev1.PodRunning:
		return
	case w.random.Float64() < w.fails:
		pod.Status.Phase = corev1.PodFailed
	default:
		pod.Status.Phase = corev1.PodSucceeded
	}
	w.put(pod)
}

// noExportIsLeft checks that no objects of exports are left.
func (w *world) noExportIsLeft() {
	w.t.Helper()
	for _, d := range w.disks {
		require.Empty(w.t, d.Annotations)
		require.Nil(w.t, d.Status.Export)
		require.Nil(w.t, w.works[disk.ExporterName(d.Name)])
	}
	for _, i := range w.images {
		require.Empty(w.t, i.Annotations)
		require.Nil(w.t, i.Status.Export)
		require.Nil(w.t, w.works[disk.ImageExporterName(i.Name)])
	}
}
