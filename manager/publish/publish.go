// Package publish writes what has become of an object: its status, and events about it.
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
	"vmop/manager/objects"
)

// Owner of the fields that the manager writes.
const Owner = client.FieldOwner("vm-operator")

// ReportingController of the events that managers write.
const ReportingController = v1.GroupName + "/vm-manager"

// LabelInitiator of an event says who caused it.
const LabelInitiator = v1.GroupName + "/initiator"

// AnnotationUser of an event has the name of the user who has requested something.
const AnnotationUser = v1.GroupName + "/user"

// LongestNote is how long the note of an event may be: a little less than the API server allows, in bytes.
const LongestNote = 1000

// Status writes the status of an object unless the object has changed since it was read. into has the
// object's name and namespace, and is what the API server has then.
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

// An Event is something that has happened to an object.
type Event struct {
	Kind                 string // of the object, of the project's group
	Key                  string // another one for each thing that happens to it
	Reason, Action, Note string // Note has at most LongestNote bytes
	Warning              bool
}

// Of returns the event of an object. instance is the name of the manager's process; "" if it has none.
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

// Write creates an event. That it could not be written keeps nothing else from being done.
func Write(ctx context.Context, to client.Writer, e *eventsv1.Event) {
	if err := to.Create(ctx, e, Owner); err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Error(err, "event not written", "reason", e.Reason, "note", e.Note)
	}
}
