package apply

import (
	"context"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	v1 "vmop/api/v1"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// recordEvent writes an event, unless it has been written before. If the write fails, the reconciliation continues.
func (r *Round) recordEvent(ctx context.Context, e decide.Event) { r.eventOf(ctx, e, "") }

// eventOf works like recordEvent, for an action that a user has requested; user is "" if there is no such user.
func (r *Round) eventOf(ctx context.Context, e decide.Event, user string) {
	object := NewEvent(r.VM, e, r.Now, r.w.instance)
	if user != "" {
		object.Annotations = map[string]string{publish.AnnotationUser: user}
	}
	publish.Write(ctx, r.w.client, object)
}

// NewEvent returns the object of an event about a VM; instance is the name of the manager's process.
func NewEvent(vm *v1.VirtualMachine, e decide.Event, now time.Time, instance string) *eventsv1.Event {
	object := publish.Event{
		Kind: "VirtualMachine", Key: e.Reason + "/" + e.Key, Reason: e.Reason, Action: e.Action,
		Note: decide.Shorten(e.Note, publish.LongestNote), Warning: e.Warning,
	}.Of(vm, now, instance)
	object.Labels = map[string]string{objects.LabelInstance: vm.Name, publish.LabelInitiator: e.Initiator}
	object.Regarding.ResourceVersion = vm.ResourceVersion
	return object
}
