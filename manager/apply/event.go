package apply

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// LabelInitiator of an event says who caused it.
const LabelInitiator = v1.GroupName + "/initiator"

// ReportingController of the events that managers write; the admission policy of runners keeps them from
// naming it.
const ReportingController = v1.GroupName + "/vm-manager"

// AnnotationUser of an event has the name of the user who has requested something.
const AnnotationUser = v1.GroupName + "/user"

// event writes an event, if it hasn't been written before. That it could not be written
// keeps nothing else from being done.
func (r *Round) event(ctx context.Context, e decide.Event) { r.eventOf(ctx, e, "") }

// eventOf is event for something that a user has requested; "" is no one.
func (r *Round) eventOf(ctx context.Context, e decide.Event, user string) {
	object := NewEvent(r.VM, e, r.Now, r.w.instance)
	if user != "" {
		object.Annotations = map[string]string{AnnotationUser: user}
	}
	if err := r.w.client.Create(ctx, object, managerOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Error(err, "event not written", "reason", e.Reason, "note", object.Note)
	}
}

// NewEvent returns the object of an event about a VM; instance is the name of the manager's
// process.
func NewEvent(vm *v1.VirtualMachine, e decide.Event, now time.Time, instance string) *eventsv1.Event {
	object := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: eventName(vm, e), Namespace: vm.Namespace,
			Labels: map[string]string{objects.LabelInstance: vm.Name, LabelInitiator: e.Initiator},
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: ReportingController,
		ReportingInstance:   cmp.Or(instance, objects.ManagerName),
		Type:                corev1.EventTypeNormal,
		Reason:              e.Reason, Action: e.Action,
		Note: decide.Shorten(e.Note, longestNote),
		Regarding: corev1.ObjectReference{
			APIVersion: v1.GroupVersion().String(), Kind: "VirtualMachine",
			Namespace: vm.Namespace, Name: vm.Name, UID: vm.UID, ResourceVersion: vm.ResourceVersion,
		},
	}
	if e.Warning {
		object.Type = corev1.EventTypeWarning
	}
	return object
}

// longestNote is a little less than the API server allows, in bytes.
const longestNote = 1000

func eventName(vm *v1.VirtualMachine, e decide.Event) string {
	sum := sha256.Sum256([]byte(string(vm.UID) + "/" + e.Reason + "/" + e.Key))
	return vm.Name + "." + hex.EncodeToString(sum[:8])
}
