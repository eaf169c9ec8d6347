package vm

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/capture"
	diskof "vmop/manager/disk"
	"vmop/manager/snapshot"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/tier"
	"vmop/test/wait"
)

// guests are those of all VMs of a namespace, which note what is asked of them.
type guests struct {
	mu     sync.Mutex
	acts   []string
	answer status.FreezeAnswer
	err    error
	thawed int // file systems
}

func (g *guests) of(*v1.VirtualMachine, *corev1.Pod) (capture.Guest, error) { return g, nil }

func (g *guests) Freeze(context.Context, time.Duration) (status.FreezeAnswer, error) {
	return g.note("freeze"), g.err
}

func (g *guests) Thaw(context.Context) (status.FreezeAnswer, error) {
	g.note("thaw")
	return status.FreezeAnswer{FileSystems: g.thawed}, nil
}

func (g *guests) note(act string) status.FreezeAnswer {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acts = append(g.acts, act)
	return g.answer
}

func (g *guests) did() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	did := g.acts
	g.acts = nil
	return did
}

// snapshotClass makes a class for the driver of a storage class.
func (w *world) snapshotClass(driver string) {
	w.t.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	class.SetGroupVersionKind(snapshot.ClassKind)
	class.SetName(w.Name)
	w.create(class)
	w.t.Cleanup(func() { _ = w.client.Delete(w.playing(), class) })
}

// snapshot makes a snapshot of the disk "data".
func (w *world) snapshot(name string, required bool) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDiskSnapshot, metadata: {name: %s}, "+
		"spec: {virtualDiskName: data, requiredConsistency: %t, volumeSnapshotClassName: %s}}", name, required, w.Name))
}

// volumeSnapshot waits for that of a snapshot.
func (w *world) volumeSnapshot(of string) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(snapshot.VolumeKind)
	return eventually(w, snapshot.VolumeName(of), o, "is there", func(*unstructured.Unstructured) bool { return true })
}

// driver is that of the storage, which reports about a VolumeSnapshot.
func (w *world) driver(o *unstructured.Unstructured, reports map[string]any) {
	w.t.Helper()
	before := o.DeepCopy()
	o.Object["status"] = reports
	require.NoError(w.t, w.client.Status().Patch(w.playing(), o, client.MergeFrom(before)))
}

// snapshotIs waits until a snapshot has a phase for a reason.
func (w *world) snapshotIs(name string, phase v1.SnapshotPhase, reason string) *v1.VirtualDiskSnapshot {
	w.t.Helper()
	is := func(s *v1.VirtualDiskSnapshot) bool { return s.Status.Phase == phase && s.Status.Reason == reason }
	return eventually(w, name, &v1.VirtualDiskSnapshot{}, string(phase)+" "+reason, is)
}

// stored is what the driver reports in the end.
func stored() map[string]any {
	return map[string]any{
		"creationTime": time.Now().UTC().Format(time.RFC3339), "readyToUse": true, "restoreSize": "1Gi",
		"boundVolumeSnapshotContentName": "content",
	}
}

func TestSnapshotsOfADisk(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := newWorld(t)
	g := &guests{answer: status.FreezeAnswer{Frozen: true, FileSystems: 2}, thawed: 2}
	w.guests = g
	w.manage(nil)
	class := w.storage(false, true, "1Gi")

	w.snapshot("early", false)
	s := w.snapshotIs("early", v1.SnapshotPending, snapshot.ReasonDiskMissing)
	require.Contains(t, s.Status.Message, "no VirtualDisk data")
	w.blankDisk("data", class, "1Gi")
	w.diskIs("data", v1.DiskReady, "")
	s = w.snapshotIs("early", v1.SnapshotPending, snapshot.ReasonNoClass)
	require.Contains(t, s.Status.Message, "there is no VolumeSnapshotClass "+w.Name)
	w.Kubectl("delete", "vdsnapshot", "early")
	w.snapshotClass("kubernetes.io/no-provisioner")

	// Of a disk that no VM has.
	w.snapshot("free", true)
	volume := w.volumeSnapshot("free")
	require.Equal(t, map[string]any{
		"volumeSnapshotClassName": w.Name, "source": map[string]any{"persistentVolumeClaimName": "vd-data"},
	}, volume.Object["spec"])
	w.driver(volume, map[string]any{
		"creationTime": "2026-01-02T03:04:05Z", "readyToUse": false, "boundVolumeSnapshotContentName": "content",
	})
	w.snapshotIs("free", v1.SnapshotInProgress, snapshot.ReasonStoring)
	w.driver(volume, map[string]any{
		"creationTime": "2026-01-02T03:04:05Z", "readyToUse": true, "restoreSize": "1Gi",
		"boundVolumeSnapshotContentName": "content",
	})
	s = w.snapshotIs("free", v1.SnapshotReady, "")
	require.True(t, *s.Status.Consistent)
	require.True(t, meta.IsStatusConditionTrue(s.Status.Conditions, v1.SnapshotConditionConsistent))
	require.Equal(t, "1Gi", s.Status.RestoreSize)
	require.Equal(t, "2026-01-02T03:04:05Z", s.Status.CreationTime.UTC().Format(time.RFC3339))
	require.Regexp(t, `^NAME +PHASE +CONSISTENT +AGE\nfree +Ready +true +\d+s\n$`, w.Kubectl("get", "vdsnapshot"))
	require.True(t, metav1.IsControlledBy(volume, s), "it goes with the snapshot")
	require.Empty(t, g.did())

	// Of a running VM: the guest is frozen while the driver makes it.
	w.vm("web", withDisks("data"))
	w.boot("web")
	w.snapshot("frozen", true)
	volume = w.volumeSnapshot("frozen")
	require.Equal(t, []string{"freeze"}, g.did())
	w.driver(volume, stored())
	require.True(t, *w.snapshotIs("frozen", v1.SnapshotReady, "").Status.Consistent)
	require.Equal(t, []string{"thaw"}, g.did())

	// Another one freezes it at the moment.
	g.err = &control.AnswerError{Code: http.StatusConflict, Message: "frozen already"}
	w.snapshot("busy", true)
	s = w.snapshotIs("busy", v1.SnapshotPending, snapshot.ReasonBusy)
	require.Equal(t, "the VM web: frozen already", s.Status.Message)
	g.err = nil
	w.driver(w.volumeSnapshot("busy"), stored())
	require.True(t, *w.snapshotIs("busy", v1.SnapshotReady, "").Status.Consistent)

	// The runner's limit was over, or the guest was reset.
	g.thawed = 0
	w.snapshot("late", false)
	w.driver(w.volumeSnapshot("late"), stored())
	s = w.snapshotIs("late", v1.SnapshotReady, "")
	require.False(t, *s.Status.Consistent)
	require.Equal(t, "crash-consistent, as after a power cut: the guest's file systems were thawed before the snapshot "+
		"was made", s.Status.Message)
	w.snapshot("late-required", true)
	w.driver(w.volumeSnapshot("late-required"), stored())
	s = w.snapshotIs("late-required", v1.SnapshotFailed, snapshot.ReasonNotConsistent)
	require.Contains(t, s.Status.Message, "were thawed before the snapshot was made; it is asked for a consistent one")
	w.noVolumeSnapshot("late-required")

	// There is no agent.
	g.did()
	g.answer = status.FreezeAnswer{Message: "not frozen: crash-consistent, because no guest agent is connected"}
	w.snapshot("crash", false)
	w.driver(w.volumeSnapshot("crash"), stored())
	s = w.snapshotIs("crash", v1.SnapshotReady, "")
	require.False(t, *s.Status.Consistent)
	require.Equal(t, "crash-consistent, as after a power cut: the VM web is running, and its file systems are not frozen: "+
		"no guest agent is connected", s.Status.Message)
	w.snapshot("crash-required", true)
	s = w.snapshotIs("crash-required", v1.SnapshotFailed, snapshot.ReasonNotConsistent)
	require.Contains(t, s.Status.Message, "no guest agent is connected; it is asked for a consistent one (spec.requiredConsistency)")
	w.noVolumeSnapshot("crash-required")
	require.Equal(t, []string{"freeze", "freeze"}, g.did())

	// A disk that is made of a snapshot.
	restore := func(name, size, of string) {
		w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: %s}, spec: "+
			"{persistentVolumeClaim: {storageClassName: %q, size: %s}, dataSource: {type: ObjectRef, objectRef: "+
			"{kind: VirtualDiskSnapshot, name: %s}}}}", name, class, size, of))
	}
	restore("waits", "1Gi", "nothing")
	d := w.diskIs("waits", v1.DiskPending, diskof.ReasonSnapshotMissing)
	require.Contains(t, d.Status.Message, "there is no VirtualDiskSnapshot nothing (spec.dataSource.objectRef)")
	restore("failed", "1Gi", "crash-required")
	d = w.diskIs("failed", v1.DiskPending, diskof.ReasonSnapshotNotReady)
	require.Contains(t, d.Status.Message, "crash-required is Failed: the VM web is running")
	restore("small", "1Mi", "frozen")
	d = w.diskIs("small", v1.DiskPending, diskof.ReasonTooSmall)
	require.Contains(t, d.Status.Message, "spec.persistentVolumeClaim.size: the disk of the VirtualDiskSnapshot frozen has 1Gi")
	restore("restored", "2Gi", "frozen")
	w.diskIs("restored", v1.DiskPending, diskof.ReasonProvisioning)
	claim, _ := get(w, "vd-restored", &corev1.PersistentVolumeClaim{})
	require.Equal(t, "VolumeSnapshot/vds-frozen", claim.Spec.DataSource.Kind+"/"+claim.Spec.DataSource.Name)

	// What is lost is not made again.
	require.NoError(t, w.client.Delete(t.Context(), volume))
	w.snapshotIs("frozen", v1.SnapshotFailed, snapshot.ReasonLost)
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

// A manager that ends while a snapshot is made leaves one that may not be consistent.
func TestAManagerEndsWhileASnapshotIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.guests = &guests{answer: status.FreezeAnswer{Frozen: true, FileSystems: 2}, thawed: 2}
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
	w.driver(volume, stored()) // the other one may be deleted already
	s := w.snapshotIs("any", v1.SnapshotReady, "")
	require.False(t, *s.Status.Consistent)
	require.Contains(t, s.Status.Message, "crash-consistent, as after a power cut: the manager was ended")
	w.snapshotIs("required", v1.SnapshotFailed, snapshot.ReasonNotConsistent)
	w.noVolumeSnapshot("required")
}

func TestSnapshotsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	make := func(name, spec string) error {
		o := &unstructured.Unstructured{}
		require.NoError(t, o.UnmarshalJSON([]byte(`{"apiVersion": "vmoperator.jdrupes.org/v1", "kind": "VirtualDiskSnapshot",
			"metadata": {"name": "`+name+`", "namespace": "`+w.Name+`"}, "spec": `+spec+`}`)))
		return w.client.Create(t.Context(), o)
	}
	require.ErrorContains(t, make("a.b", `{"virtualDiskName": "data"}`), "metadata.name must be a DNS label")
	require.ErrorContains(t, make("a", `{"virtualDiskName": "A/B"}`), "want the name of a VirtualDisk")
	require.ErrorContains(t, make("a", `{}`), "spec.virtualDiskName: Required value")
	require.NoError(t, make("a", `{"virtualDiskName": "data"}`))
	s, _ := get(w, "a", &v1.VirtualDiskSnapshot{})
	s.Spec.VirtualDiskName = "other"
	require.ErrorContains(t, w.client.Update(t.Context(), s), "a snapshot can't be changed: make another one")
}
