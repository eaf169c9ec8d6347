package controller

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/snapshot"
)

// attempt is an attempt to create the VolumeSnapshots of a snapshot.
type attempt struct {
	name    string
	outcome *snapshot.Outcome // nil: in progress
	until   time.Time         // time when a failed attempt may be repeated
}

// attempts contains the attempts of this process.
type attempts struct {
	now func() time.Time

	mu  sync.Mutex
	all map[types.UID]*attempt // by the snapshot's UID
}

// attemptOf returns the progress of this process for a snapshot. runs reports whether an attempt is in progress, came
// is the outcome of the last attempt, and again is the time until a failed attempt may be repeated.
func (s *attempts) attemptOf(uid types.UID) (runs bool, came *snapshot.Outcome, again time.Duration) {
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

// forgetEnded drops the finished attempts for snapshots of a name, except those with a UID that counts.
func (s *attempts) forgetEnded(name string, counts func(types.UID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, a := range s.all {
		if a.name == name && a.outcome != nil && !counts(uid) {
			delete(s.all, uid)
		}
	}
}

// beginAttempt starts an attempt for a snapshot, and calls done when it has ended.
func (s *attempts) beginAttempt(ctx context.Context, of metav1.Object, do func(context.Context) snapshot.Outcome,
	done func(),
) {
	a := &attempt{name: of.GetName()}
	s.mu.Lock()
	s.all[of.GetUID()] = a
	s.mu.Unlock()
	go func() {
		// The reconciliation's context ends too early. A started attempt ends within the time limit, unless the
		// process ends.
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
