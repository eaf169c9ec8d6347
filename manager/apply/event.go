package apply

import (
	"context"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/manager/publish"
)

// event writes an event, if it hasn't been written before. That it could not be written
// keeps nothing else from being done.
func (r *Round) event(ctx context.Context, e decide.Event) { r.eventOf(ctx, e, "") }

// eventOf is event for something that a user has requested; "" is no one.
func (r *Round) eventOf(ctx context.Context, e decide.Event, user string) {
	object := NewEvent(r.VM, e, r.Now, r.w.instance)
	if user != "" {
		object.Annotations = map[string]string{publish.AnnotationUser: user}
	}
	publish.Write(ctx, r.w.client, object)
}

// NewEvent returns the object of an event about a VM; instance is the name of the manager's
// process.
func NewEvent(vm *v1.VirtualMachine, e decide.Event, now time.Time, instance string) *eventsv1.Event {
	object := publish.Event{
		Kind: "VirtualMachine", Key: e.Reason + "/" + e.Key, Reason: e.Reason, Action: e.Action,
		Note: decide.Shorten(e.Note, publish.LongestNote), Warning: e.Warning,
	}.Of(vm, now, instance)
	object.Labels = map[string]string{objects.LabelInstance: vm.Name, publish.LabelInitiator: e.Initiator}
	object.Regarding.ResourceVersion = vm.ResourceVersion
	return object
}
