package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/store/publish"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/test/wait"
)

// heard waits until the shown events match.
func heard(t *testing.T, from <-chan []fleet.Event, what string, are func([]fleet.Event) bool) {
	t.Helper()
	var last []fleet.Event
	for over := wait.Over(t); ; {
		select {
		case last = <-from:
			if are(last) {
				return
			}
		case <-over:
			require.FailNow(t, "waited in vain until "+what, "%+v", last)
		}
	}
}

// write writes an event like another program; with a count it uses the older API.
func (p *place) write(name, kind, about string, count int32, controller, note string) {
	p.t.Helper()
	now := metav1.Now()
	regarding := corev1.ObjectReference{Kind: kind, Namespace: p.Name, Name: about}
	if count > 0 {
		require.NoError(p.t, p.admin.Create(p.t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.Name}, InvolvedObject: regarding, Type: "Warning",
			Reason: "FailedScheduling", Message: note, Count: count, FirstTimestamp: now, LastTimestamp: now,
		}))
		return
	}
	require.NoError(p.t, p.admin.Create(p.t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: p.Name, Annotations: map[string]string{publish.AnnotationUser: "boss"},
		},
		EventTime: metav1.NowMicro(), ReportingController: controller, ReportingInstance: "x", Action: "Reset",
		Reason: "R", Regarding: regarding, Type: "Normal", Note: note,
	}))
}

// A page shows existing and new events of the VM and its pod. The names of requesting users can't be forged. No events
// are read after the page is closed.
func TestEventsOfAVM(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.define("web", small)
	p.define("other", small)
	p.report("web", map[string]any{"phase": "Stopped"})
	p.await("web", "it is stopped", func(vm *fleet.VM) bool { return vm.State == fleet.Stopped })
	pod := objects.PodName("web", 0)
	p.write("a", "Pod", pod, 17, "", "0/3 nodes\x1b[2J are available")
	p.write("b", "VirtualMachine", "other", 3, "", "of another VM")
	p.write("c", "VirtualMachine", "web", 0, "x/runner", "boss has requested: reset")

	ctx, cancel := context.WithCancel(t.Context())
	events, err := p.Events(ctx, "web")
	require.NoError(t, err)
	heard(t, events, "both objects' are there", func(list []fleet.Event) bool { return len(list) == 2 })
	require.NoError(t, p.Insert(ctx, "alice", "web", "drive 0", "new.iso"))
	require.NoError(t, p.Resize(ctx, "bob", "web", fleet.Size{CPUs: new(int64(2))}))
	heard(t, events, "those that have come are there", func(list []fleet.Event) bool {
		if len(list) != 4 {
			return false
		}
		found := map[string]fleet.Event{}
		for _, e := range list {
			require.WithinDuration(t, time.Now(), e.At, wait.Longest)
			e.At = time.Time{}
			found[e.Reason+" "+e.User] = e
		}
		require.Equal(t, map[string]fleet.Event{
			"FailedScheduling ": {
				Count: 17, Warning: true, About: "Pod " + pod, Reason: "FailedScheduling",
				Text: "0/3 nodes�[2J are available",
			},
			"R ": {Count: 1, Reason: "R", Text: "boss has requested: reset"},
			"Requested alice": {
				Count: 1, User: "alice", Action: "insert", Reason: "Requested", Text: "drive 0: new.iso",
			},
			"Requested bob": {Count: 1, User: "bob", Action: "resize", Reason: "Requested", Text: "2 CPUs"},
		}, found)
		return true
	})
	require.Len(t, p.heard, 1)
	cancel()
	wait.Until(t, func() bool { return len(p.heard) == 0 })

	p.Kubectl("delete", "vm", "web")
	wait.Until(t, func() bool { _, err = p.Events(t.Context(), "web"); return err != nil })
	require.ErrorIs(t, err, fleet.ErrNotFound)
	require.NotContains(t, p.log.String(), "WARN")
}

// The latest of very many events are kept. Pages without a watch also show events.
func TestManyEventsAndPages(t *testing.T) {
	t.Parallel()
	ctx, in, out := t.Context(), make(chan []eventsv1.Event), make(chan []fleet.Event, 1)
	go collectEvents(ctx, time.Unix(1000, 0), in, out)
	for i := range mostKept + 200 {
		e := eventsv1.Event{EventTime: metav1.NewMicroTime(time.Unix(int64(800+i), 0)), Reason: "R"}
		e.Note = fmt.Sprint(i)
		e.UID = types.UID(e.Note)
		in <- []eventsv1.Event{e}
	}
	heard(t, out, "the last is there", func(list []fleet.Event) bool {
		return len(list) == fleet.MostEvents && list[0].At.Unix() == 800+mostKept+199
	})

	p := newPlace(t)
	p.define("web", small)
	p.write("c", "VirtualMachine", "web", 0, "x/y", "note")
	for range mostHeard {
		p.Fleet.heard <- struct{}{}
	}
	events, err := p.Events(ctx, "web")
	require.NoError(t, err)
	heard(t, events, "it is there", func(list []fleet.Event) bool { return len(list) == 1 })
}
