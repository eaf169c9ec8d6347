package capture

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/snapshot"
)

// An attempt to make the VolumeSnapshots of a snapshot of a name.
type attempt struct {
	name    string
	outcome *snapshot.Outcome // nil: they are being made
	until   time.Time         // a failed one is not made again before
}

// attempts are those of this process.
type attempts struct {
	now func() time.Time

	mu  sync.Mutex
	all map[types.UID]*attempt // by the snapshot's uid
}

// of returns how far this process is with a snapshot.
func (s *attempts) of(uid types.UID) (runs bool, came *snapshot.Outcome, again time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[uid]
	switch now := s.now(); {
	case a == nil:
		return false, nil, 0
	case a.outcome == nil:
		return true, nil, 0
	case !a.outcome.Made() && !now.Before(a.until):
		delete(s.all, uid)
		return false, nil, 0
	case !a.outcome.Made():
		return false, a.outcome, a.until.Sub(now)
	}
	return false, a.outcome, 0
}

// forget drops what is known of attempts for the snapshots of a name that have ended, but those
// that count.
func (s *attempts) forget(name string, counts func(types.UID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, a := range s.all {
		if a.name == name && a.outcome != nil && !counts(uid) {
			delete(s.all, uid)
		}
	}
}

// begin makes an attempt for a snapshot, and calls done when it has ended.
func (s *attempts) begin(ctx context.Context, of metav1.Object, do func(context.Context) snapshot.Outcome,
	done func(),
) {
	a := &attempt{name: of.GetName()}
	s.mu.Lock()
	s.all[of.GetUID()] = a
	s.mu.Unlock()
	go func() {
		// Not by the context of a reconciliation, which ends: what has begun is ended within the
		// time limit, unless the process ends.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTime)
		defer cancel()
		came := do(ctx)
		s.mu.Lock()
		a.outcome, a.until = &came, s.now().Add(refusedRetry)
		if came.Reason == snapshot.ReasonBusy {
			a.until = s.now().Add(busyRetry)
		}
		s.mu.Unlock()
		done()
	}()
}
