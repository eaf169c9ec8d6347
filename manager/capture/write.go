package capture

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/manager/snapshot"
)

// owner of the fields that the manager writes.
const owner = client.FieldOwner("vm-operator")

// refusal returns what an error of the API server means.
func refusal(err error) snapshot.Outcome {
	message := err.Error()
	if apierrors.IsForbidden(err) && !strings.Contains(message, "exceeded quota") {
		message += "; the administrator applies deploy/manager/account.yaml and cluster-account.yaml"
	}
	return refuse(snapshot.ReasonRefused, "the API server refuses the snapshot; it is tried again every minute: %s", message)
}

// newVolume returns the VolumeSnapshot that is to be made of the claim of a disk, by a class.
func newVolume(of *v1.VirtualDiskSnapshot, d *v1.VirtualDisk, class string) *unstructured.Unstructured {
	source := map[string]any{"persistentVolumeClaimName": d.Status.Target.PersistentVolumeClaimName}
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"volumeSnapshotClassName": class, "source": source},
	}}
	o.SetGroupVersionKind(snapshot.VolumeKind)
	o.SetNamespace(of.Namespace)
	o.SetName(snapshot.VolumeName(of.Name))
	o.SetLabels(map[string]string{
		objects.LabelName: snapshot.AppName, objects.LabelInstance: of.Name,
		objects.LabelManagedBy: objects.ManagerName,
	})
	owner := *metav1.NewControllerRef(of, v1.GroupVersion().WithKind("VirtualDiskSnapshot"))
	owner.BlockOwnerDeletion = nil // which would ask for a right to finalizers
	o.SetOwnerReferences([]metav1.OwnerReference{owner})
	return o
}

// write writes the status of a snapshot unless the snapshot has changed since it was read.
func (c *Controller) write(ctx context.Context, of *v1.VirtualDiskSnapshot, is v1.VirtualDiskSnapshotStatus) error {
	text, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": of.ResourceVersion},
		{"op": "add", "path": "/status", "value": is},
	})
	if err != nil {
		return err
	}
	next := &v1.VirtualDiskSnapshot{ObjectMeta: metav1.ObjectMeta{Name: of.Name, Namespace: c.opts.Namespace}}
	err = c.opts.Client.Status().Patch(ctx, next, client.RawPatch(types.JSONPatchType, text), owner)
	if err != nil {
		return fmt.Errorf("write the status of the VirtualDiskSnapshot %s: %w", of.Name, err)
	}
	return nil
}

// event writes an event about what a snapshot has become. That it could not be written keeps nothing
// else from being done.
func (c *Controller) event(ctx context.Context, of *v1.VirtualDiskSnapshot, is v1.VirtualDiskSnapshotStatus) {
	sum := sha256.Sum256([]byte(string(of.UID) + "/" + string(is.Phase) + "/" + is.Reason + "/" + is.Message))
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: of.Name + "." + hex.EncodeToString(sum[:8]), Namespace: c.opts.Namespace,
		},
		EventTime:           metav1.NewMicroTime(c.opts.Now()),
		ReportingController: reportingController, ReportingInstance: cmp.Or(c.opts.Instance, objects.ManagerName),
		Type: corev1.EventTypeNormal, Reason: cmp.Or(is.Reason, string(is.Phase)), Action: string(is.Phase),
		Note: decide.Shorten(cmp.Or(is.Message, "the snapshot is "+string(is.Phase)), longestNote),
		Regarding: corev1.ObjectReference{
			APIVersion: v1.GroupVersion().String(), Kind: "VirtualDiskSnapshot",
			Namespace: c.opts.Namespace, Name: of.Name, UID: of.UID,
		},
	}
	if is.Phase == v1.SnapshotFailed {
		e.Type = corev1.EventTypeWarning
	}
	if err := c.opts.Client.Create(ctx, e, owner); err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Error(err, "event not written", "reason", e.Reason, "note", e.Note)
	}
}

// reportingController of the events that managers write, and how long their notes are, in bytes.
const (
	reportingController = v1.GroupName + "/vm-manager"
	longestNote         = 1000
)
