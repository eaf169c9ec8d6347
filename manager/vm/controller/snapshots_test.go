package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
	snapshotctl "vmop/manager/snapshot/controller"
	"vmop/runner/status"
	"vmop/test/wait"
)

// guests plays the guests of all VMs in a namespace.
type guests struct{}

func (g *guests) of(*v1.VirtualMachine, *corev1.Pod) (snapshotctl.Guest, error) { return g, nil }

func (g *guests) Freeze(context.Context, time.Duration) (status.FreezeAnswer, error) {
	return status.FreezeAnswer{Frozen: true, FileSystems: 2}, nil
}

func (g *guests) Thaw(context.Context) (status.FreezeAnswer, error) {
	return status.FreezeAnswer{FileSystems: 2}, nil
}

// snapshotClass creates a snapshot class for the driver of a storage class.
func (w *world) snapshotClass(driver string) {
	w.t.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	class.SetGroupVersionKind(snapshot.ClassKind)
	class.SetName(w.Name)
	w.create(class)
	w.t.Cleanup(func() { _ = w.client.Delete(w.playing(), class) })
}

// snapshot creates a snapshot of the disk "data".
func (w *world) snapshot(name string, required bool) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDiskSnapshot, metadata: {name: %s}, "+
		"spec: {virtualDiskName: data, requiredConsistency: %t, volumeSnapshotClassName: %s}}", name, required, w.Name))
}

// volumeSnapshot waits for the VolumeSnapshot of a snapshot.
func (w *world) volumeSnapshot(of string) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(snapshot.VolumeKind)
	return there(w, snapshot.VolumeName(of), o)
}

// driver plays the storage driver, which reports the status of a VolumeSnapshot.
func (w *world) driver(o *unstructured.Unstructured, reports map[string]any) {
	w.t.Helper()
	before := o.DeepCopy()
	o.Object["status"] = reports
	require.NoError(w.t, w.client.Status().Patch(w.playing(), o, client.MergeFrom(before)))
}

// snapshotIs waits until a snapshot has a phase and a reason.
func (w *world) snapshotIs(name string, phase v1.SnapshotPhase, reason string) *v1.VirtualDiskSnapshot {
	w.t.Helper()
	is := func(s *v1.VirtualDiskSnapshot) bool { return s.Status.Phase == phase && s.Status.Reason == reason }
	return eventually(w, name, &v1.VirtualDiskSnapshot{}, string(phase)+" "+reason, is)
}

// stored is the driver's final report.
func stored() map[string]any {
	return map[string]any{
		"creationTime": time.Now().UTC().Format(time.RFC3339), "readyToUse": true, "restoreSize": "1Gi",
		"boundVolumeSnapshotContentName": "content",
	}
}

func (w *world) noVolumeSnapshot(of string) {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(snapshot.VolumeKind)
	wait.Until(w.t, func() bool {
		err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Name, Name: snapshot.VolumeName(of)}, o)
		return apierrors.IsNotFound(err)
	})
}

// A snapshot may be inconsistent if its manager ends while creating it.
func TestAManagerEndsWhileASnapshotIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.guests = &guests{}
	end := w.manage(nil)
	w.snapshotClass("kubernetes.io/no-provisioner")
	w.blankDisk("data", w.storage(false, true, "1Gi"), "1Gi")
	w.diskIs("data", v1.DiskReady, "")
	w.vm("web", withDisks("data"))
	w.boot("web")
	w.snapshot("any", false)
	w.snapshot("required", true)
	volume := w.volumeSnapshot("any")
	w.volumeSnapshot("required")
	end()
	w.manage(nil)
	w.driver(volume, stored()) // the other one may already be deleted
	s := w.snapshotIs("any", v1.SnapshotReady, "")
	require.False(t, *s.Status.Consistent)
	require.Contains(t, s.Status.Message, "crash-consistent, as after a power cut: the manager was stopped")
	w.snapshotIs("required", v1.SnapshotFailed, snapshot.ReasonNotConsistent)
	w.noVolumeSnapshot("required")
}
