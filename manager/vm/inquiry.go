package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// An inquiry is a question about a VM that doesn't start, for events or the content of
// claims, which are not in the mirror: nobody tells when the answer becomes another.
type inquiry struct {
	about        string
	since, asked time.Time
	answer       string
}

// Bounds of the time between a question and the next one; it grows with the time for
// which the VM hasn't started.
const (
	inquiryAfter = 3 * time.Second // what every VM passes through is not asked about
	inquiryEvery = 10 * time.Minute
)

// inquire asks when it is time to, and returns the newest answer. That nobody could be
// asked is no reason not to tell what is known.
func (v *visit) inquire(ctx context.Context, about string, ask func() (string, error)) string {
	q := v.memory.inquiry
	if q == nil || q.about != about {
		q = &inquiry{about: about, since: v.now}
		v.memory.inquiry = q
	}
	next := q.since.Add(inquiryAfter)
	if !q.asked.IsZero() {
		next = q.asked.Add(min(max(q.asked.Sub(q.since), inquiryAfter), inquiryEvery))
	}
	if !v.now.Before(next) {
		answer, err := ask()
		if err == nil {
			q.answer = answer
		} else {
			log.FromContext(ctx).Error(err, "what keeps a VM from starting is not known")
		}
		q.asked = v.now
		next = q.asked.Add(min(max(q.asked.Sub(q.since), inquiryAfter), inquiryEvery))
	}
	v.lookAgain(next)
	return q.answer
}

// complaints are the newest warnings about objects of a kind: what keeps a pod or a volume
// from being made is in events only. They are asked for at once for all VMs, of which
// many can be waiting.
type complaints struct {
	mu    sync.Mutex
	asked time.Time
	about map[types.UID]string
}

// complaintsEvery is how old they may be.
const complaintsEvery = 3 * time.Second

// complaint returns the newest warning about an object; "" if there is none.
func (c *reconciler) complaint(ctx context.Context, v *visit, k kind, about types.UID) (string, error) {
	all := &c.complaints[k]
	all.mu.Lock()
	defer all.mu.Unlock()
	if v.now.Sub(all.asked) >= complaintsEvery {
		var events eventsv1.EventList
		if err := c.live.List(ctx, &events, client.InNamespace(v.vm.Namespace), client.MatchingFields{"regarding.kind": k.String(), "type": corev1.EventTypeWarning}); err != nil {
			return "", fmt.Errorf("read the events of each %s: %w", k, err)
		}
		all.asked, all.about = v.now, newest(events.Items)
	}
	return all.about[about], nil
}

// newest returns the notes of the newest events, by what they are about.
func newest(events []eventsv1.Event) map[types.UID]string {
	slices.SortStableFunc(events, func(a, b eventsv1.Event) int { return happenedAt(&a).Compare(happenedAt(&b)) })
	notes := map[types.UID]string{}
	for i := range events {
		notes[events[i].Regarding.UID] = strings.TrimRight(readable(events[i].Note), ".")
	}
	return notes
}

// happenedAt is when an event happened last, as its writer's version of the API says.
func happenedAt(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.DeprecatedLastTimestamp.IsZero():
		return e.DeprecatedLastTimestamp.Time
	}
	return e.EventTime.Time
}
