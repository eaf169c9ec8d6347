package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/internal/printable"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
)

const (
	// mostKept is how many events of a VM to read for a page. longestText is the maximum length of a text in bytes.
	mostKept    = 500
	longestText = 1000
	// mostHeard is the maximum number of pages with a watch for events. Other pages poll.
	mostHeard = 100
	// hearAgain is the delay before a watch is restarted. hearSeldom is the polling interval without a watch.
	hearAgain  = 5 * time.Second
	hearSeldom = 30 * time.Second
)

// Events implements fleet.Fleet. It returns the events of the VM and its pod; the pod's events include why Kubernetes
// can't start it. They are read only while a page is open.
//
// See docs/decisions/0077-timeline.md.
func (f *Fleet) Events(ctx context.Context, name string) (<-chan []fleet.Event, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return nil, err
	}
	watched := false
	select {
	case f.heard <- struct{}{}:
		watched = true
		context.AfterFunc(ctx, func() { <-f.heard })
	default:
	}
	heard, shown := make(chan []eventsv1.Event), make(chan []fleet.Event, 1)
	for _, about := range []client.MatchingFields{
		{"regarding.kind": kindOfVM, "regarding.name": name},
		{"regarding.kind": "Pod", "regarding.name": objects.PodName(name, vm.Status.PodOrdinal)},
	} {
		go f.followEvents(ctx, about, watched, heard) // each selector needs its own watch
	}
	go collectEvents(ctx, vm.CreationTimestamp.Time, heard, shown) // merges both
	return shown, nil
}

// followEvents sends the events about an object to heard, until ctx is done.
func (f *Fleet) followEvents(ctx context.Context, about client.MatchingFields, watched bool,
	heard chan<- []eventsv1.Event,
) {
	for failing := false; ctx.Err() == nil; {
		err := f.followOnce(ctx, about, watched, heard)
		if err != nil && !failing && ctx.Err() == nil {
			f.opts.Log.Warn("events can't be shown, trying again", "about", about["regarding.name"], "err", err)
		}
		failing = err != nil
		rest := hearAgain
		if failing || !watched {
			rest = hearSeldom
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// followOnce sends the existing events, and then new ones for as long as the API server keeps the watch open.
func (f *Fleet) followOnce(ctx context.Context, about client.MatchingFields, watched bool,
	heard chan<- []eventsv1.Event,
) error {
	tell := func(events ...eventsv1.Event) {
		select {
		case heard <- events:
		case <-ctx.Done():
		}
	}
	var list eventsv1.EventList
	here := client.InNamespace(f.opts.Namespace)
	if err := f.opts.Client.List(ctx, &list, here, about, client.Limit(mostKept)); err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	tell(list.Items...)
	if !watched {
		return nil
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	changes, err := f.opts.Client.Watch(ctx, &eventsv1.EventList{}, from, here, about)
	if err != nil {
		return fmt.Errorf("watch events: %w", err)
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		event, is := change.Object.(*eventsv1.Event)
		switch {
		case !is:
			return fmt.Errorf("watch events: %w", apierrors.FromObject(change.Object))
		case change.Type != watch.Deleted: // an expired event has still happened
			tell(*event)
		}
	}
	return nil
}

// collectEvents sends the list of all events after each change. It replaces a list that has not been received yet. made
// is the creation time of the VM: earlier events belong to another VM of the same name.
func collectEvents(ctx context.Context, made time.Time, heard <-chan []eventsv1.Event, shown chan []fleet.Event) {
	kept := map[types.UID]fleet.Event{}
	for {
		select {
		case <-ctx.Done():
			return
		case events := <-heard:
			for i := range events {
				if e := eventOf(&events[i]); !e.At.Before(made) {
					kept[events[i].UID] = e
				}
			}
		}
		for len(kept) > mostKept {
			oldest := slices.MinFunc(slices.Collect(maps.Keys(kept)), func(a, b types.UID) int {
				return kept[a].At.Compare(kept[b].At)
			})
			delete(kept, oldest)
		}
		select {
		case <-shown:
		default:
		}
		shown <- fleet.Timeline(slices.Collect(maps.Values(kept)))
	}
}

// eventOf converts an event for pages. It trusts only the manager to name the requesting user; runners and others could
// forge that.
func eventOf(e *eventsv1.Event) fleet.Event {
	line := func(s string) string { return decide.Shorten(printable.Line(strings.TrimSpace(s)), longestText) }
	made := fleet.Event{
		At: decide.HappenedAt(e).UTC(), Count: max(1, int(e.DeprecatedCount)), Warning: e.Type == "Warning",
		Reason: line(e.Reason), Text: line(e.Note),
	}
	if e.Series != nil {
		made.Count = max(1, int(e.Series.Count))
	}
	if e.Regarding.Kind != kindOfVM {
		made.About = line(e.Regarding.Kind + " " + e.Regarding.Name)
	}
	user := e.Annotations[publish.AnnotationUser]
	if user != "" && e.ReportingController == publish.ReportingController {
		made.User, made.Action = line(user), strings.ToLower(line(e.Action))
		made.Text = strings.TrimPrefix(made.Text, decide.RequestedBy(user))
	}
	return made
}
