package controller

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// owner is the owner of the fields that the manager writes.
const owner = publish.Owner

// outcomeOfError converts an error of the API server to an outcome.
func outcomeOfError(err error) snapshot.Outcome {
	message := err.Error()
	if apierrors.IsForbidden(err) && !strings.Contains(message, "exceeded quota") {
		message += "; the administrator applies deploy/manager/account.yaml and cluster-account.yaml"
	}
	return refusedOutcome(snapshot.ReasonRefused, "the API server refuses the snapshot; it is tried again every minute: %s", message)
}

// newVolume returns a new VolumeSnapshot for the claim of a disk, with a class.
func newVolume(of *v1.VirtualDiskSnapshot, d *v1.VirtualDisk, class string) *unstructured.Unstructured {
	return volumeSnapshot(of, "VirtualDiskSnapshot", snapshot.AppName, wantedVolume{
		name: snapshot.VolumeName(of.Name), claim: d.Status.Target.PersistentVolumeClaimName, class: class,
	})
}

// wantedVolume describes a VolumeSnapshot to create.
type wantedVolume struct{ name, claim, class string }

// volumeSnapshot returns a VolumeSnapshot that is owned by a snapshot of a kind and labeled with app.
func volumeSnapshot(of metav1.Object, kind, app string, v wantedVolume) *unstructured.Unstructured {
	source := map[string]any{"persistentVolumeClaimName": v.claim}
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"volumeSnapshotClassName": v.class, "source": source},
	}}
	o.SetGroupVersionKind(snapshot.VolumeKind)
	o.SetNamespace(of.GetNamespace())
	o.SetName(v.name)
	o.SetLabels(map[string]string{
		objects.LabelName: app, objects.LabelInstance: of.GetName(), objects.LabelManagedBy: objects.ManagerName,
	})
	owner := *metav1.NewControllerRef(of, v1.GroupVersion().WithKind(kind))
	owner.BlockOwnerDeletion = nil // would require a permission for finalizers
	o.SetOwnerReferences([]metav1.OwnerReference{owner})
	return o
}

// writeSnapshotStatus writes the status of a snapshot. It fails if the snapshot has changed since it was read.
func (c *Controller) writeSnapshotStatus(ctx context.Context, of *v1.VirtualDiskSnapshot,
	is v1.VirtualDiskSnapshotStatus,
) error {
	next := &v1.VirtualDiskSnapshot{ObjectMeta: metav1.ObjectMeta{Name: of.Name, Namespace: c.opts.Namespace}}
	return c.writeStatus(ctx, "VirtualDiskSnapshot", of, next, is)
}

// writeStatus writes the status of a snapshot of a kind. It fails if the snapshot has changed since it was read.
// next must be empty.
func (c maker) writeStatus(ctx context.Context, kind string, of metav1.Object, next client.Object, is any) error {
	if err := publish.Status(ctx, c.opts.Client, of, next, is); err != nil {
		return fmt.Errorf("write the status of the %s %s: %w", kind, of.GetName(), err)
	}
	return nil
}

// said is the part of a snapshot's status that an event shows.
type said struct {
	phase           v1.SnapshotPhase
	reason, message string
}

// recordEvent writes an event about the new state of a snapshot of a kind. A failure to write it does not stop other
// work.
func (c maker) recordEvent(ctx context.Context, of metav1.Object, kind string, is said) {
	publish.Write(ctx, c.opts.Client, publish.Event{
		Kind: kind, Key: string(is.phase) + "/" + is.reason + "/" + is.message,
		Reason: cmp.Or(is.reason, string(is.phase)), Action: string(is.phase), Warning: is.phase == v1.SnapshotFailed,
		Note: decide.Shorten(cmp.Or(is.message, "the snapshot is "+string(is.phase)), publish.LongestNote),
	}.Of(of, c.opts.Now(), c.opts.Instance))
}
