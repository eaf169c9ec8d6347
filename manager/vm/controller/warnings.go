package controller

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

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// warnings caches the newest warnings about objects of a kind. Only events contain the reasons why a pod or a volume
// can't be created. Since many VMs may be waiting, a single request reads the warnings for all VMs.
type warnings struct {
	mu    sync.Mutex
	read  time.Time
	notes map[types.UID]string
}

// warningsLast is the maximum age of cached warnings.
const warningsLast = 3 * time.Second

// newestWarning returns the newest warning about an object, or "" without a warning.
func (c *reconciler) newestWarning(ctx context.Context, now time.Time, k objects.Kind, about types.UID) (string,
	error,
) {
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

// newestNotes returns the note of the newest event about each object.
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
