// Package publish writes the outcome for an object: its status, and events about it.
package publish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Owner is the field owner of the fields that the manager writes.
const Owner = client.FieldOwner("vm-operator")

// ReportingController is the reporting controller in events from managers.
const ReportingController = v1.GroupName + "/vm-manager"

// LabelInitiator is the label of an event that shows who caused it.
const LabelInitiator = v1.GroupName + "/initiator"

// AnnotationUser is the annotation of an event with the name of the requesting user.
const AnnotationUser = v1.GroupName + "/user"

// LongestNote is the maximum length of an event's note in bytes, a little less than the API server's limit.
const LongestNote = 1000

// Client writes objects and their status.
type Client interface {
	client.Writer
	client.StatusClient
}

// Status writes the status of an object. It fails if the object has changed since it was read. into must contain the
// object's name and namespace; afterward it contains the API server's version of the object.
func Status(ctx context.Context, to client.StatusClient, of metav1.Object, into client.Object, is any) error {
	text, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": of.GetResourceVersion()},
		{"op": "add", "path": "/status", "value": is},
	})
	if err != nil {
		return err
	}
	return to.Status().Patch(ctx, into, client.RawPatch(types.JSONPatchType, text), Owner)
}

// Event is something that has happened to an object.
type Event struct {
	Kind                 string // kind of the object, in the project's API group
	Key                  string // unique for each event of the object
	Reason, Action, Note string // Note is limited to LongestNote bytes
	Warning              bool
}

// Of returns the Kubernetes event for an object. instance is the name of the manager's process, or "".
func (e Event) Of(object metav1.Object, now time.Time, instance string) *eventsv1.Event {
	sum := sha256.Sum256([]byte(string(object.GetUID()) + "/" + e.Key))
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: object.GetName() + "." + hex.EncodeToString(sum[:8]), Namespace: object.GetNamespace(),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: ReportingController,
		ReportingInstance:   cmp.Or(instance, objects.ManagerName),
		Type:                corev1.EventTypeNormal,
		Reason:              e.Reason, Action: e.Action, Note: e.Note,
		Regarding: corev1.ObjectReference{
			APIVersion: v1.GroupVersion().String(), Kind: e.Kind,
			Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		},
	}
	if e.Warning {
		event.Type = corev1.EventTypeWarning
	}
	return event
}

// Write creates an event. A failure to write it does not stop other work.
func Write(ctx context.Context, to client.Writer, e *eventsv1.Event) {
	if err := to.Create(ctx, e, Owner); err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Error(err, "event not written", "reason", e.Reason, "note", e.Note)
	}
}
