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

	"vmop/manager/decide"
	"vmop/manager/objects"
)

// warnings are the newest warnings about objects of a kind: what keeps a pod or a volume
// from being created is in events only. They are read for all VMs at once, of which many
// may be waiting.
type warnings struct {
	mu    sync.Mutex
	read  time.Time
	notes map[types.UID]string
}

// warningsLast is how old they may be.
const warningsLast = 3 * time.Second

// warning returns the newest warning about an object; "" if there is none.
func (c *reconciler) warning(ctx context.Context, now time.Time, k objects.Kind, about types.UID) (string, error) {
	all := &c.warnings[k]
	all.mu.Lock()
	defer all.mu.Unlock()
	if now.Sub(all.read) >= warningsLast {
		var events eventsv1.EventList
		if err := c.live.List(ctx, &events, client.InNamespace(c.opts.Namespace),
			client.MatchingFields{"regarding.kind": k.String(), "type": corev1.EventTypeWarning}); err != nil {
			return "", fmt.Errorf("read the events of each %s: %w", k, err)
		}
		all.read, all.notes = now, newestNotes(events.Items)
	}
	return all.notes[about], nil
}

// newestNotes returns the notes of the newest events, by what they are about.
func newestNotes(events []eventsv1.Event) map[types.UID]string {
	slices.SortStableFunc(events, func(a, b eventsv1.Event) int {
		return decide.HappenedAt(&a).Compare(decide.HappenedAt(&b))
	})
	notes := map[types.UID]string{}
	for i := range events {
		notes[events[i].Regarding.UID] = strings.TrimRight(decide.Readable(events[i].Note), ".")
	}
	return notes
}
