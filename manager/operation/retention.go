package operation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "vmop/api/v1"
)

// A Retention defines which finished operations are kept.
type Retention struct {
	// Most is the maximum number per VM; the latest are kept.
	Most int
	// For is the maximum time.
	For time.Duration
}

// freshTime is how long every finished operation stays readable, unless Retention.For is shorter.
const freshTime = 10 * time.Minute

// expiryOf returns when to delete an operation that finished at this time. seen is since when this process has known
// that. It limits the effect of clock changes: recent operations aren't deleted early, and old operations aren't kept
// for years.
func (r Retention) expiryOf(finished, seen time.Time) time.Time {
	latest := seen.Add(r.For)
	at, fresh := finished.Add(r.For), seen.Add(min(r.For, freshTime))
	switch {
	case at.Before(fresh):
		return fresh
	case at.After(latest):
		return latest
	}
	return at
}

// expiredOperations returns the finished operations to delete, and when the next operation expires; zero means never.
func (s Situation) expiredOperations() (old []*v1.VirtualMachineOperation, again time.Time) {
	var finished []*v1.VirtualMachineOperation
	for _, o := range s.Operations {
		if o.Status.Phase.Finished() && o.DeletionTimestamp == nil {
			finished = append(finished, o)
		}
	}
	slices.SortFunc(finished, func(a, b *v1.VirtualMachineOperation) int {
		return cmp.Or(s.finishedAt(b).Compare(s.finishedAt(a)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name))
	})
	for i, o := range finished {
		at := s.Retention.expiryOf(s.finishedAt(o), s.Seen(o.UID))
		if i >= s.Retention.Most || !s.Now.Before(at) {
			old = append(old, o)
		} else if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	return old, again
}

// finishedAt returns when an operation finished, but no later than this process first saw it finished.
func (s Situation) finishedAt(o *v1.VirtualMachineOperation) time.Time {
	seen := s.Seen(o.UID)
	if at := o.Status.CompletionTime; at != nil && at.Time.Before(seen) {
		return at.Time
	}
	return seen
}
