package status

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"vmop/vmstatus"
)

// A Tracker holds the status of a VM while it changes. All methods may be called from any goroutine.
type Tracker struct {
	now     func() time.Time
	stopped chan struct{} // closed when the state is Stopped

	mu      sync.Mutex
	current Status
	version uint64 // counts changes other than of the memory alone
	subs    map[*Subscription]struct{}
	history []Happening // the latest, oldest first
}

// mostHistory limits the happenings that are kept, because a guest can reset itself without end.
const mostHistory = 100

// NewTracker returns a tracker with a status in state Initializing, changed by the updates. Tests replace the
// clock, time.Now.
func NewTracker(now func() time.Time, updates ...Update) *Tracker {
	t := &Tracker{now: now, stopped: make(chan struct{}), subs: map[*Subscription]struct{}{}}
	_ = t.Update(updates...) // every state can be entered from the empty state
	return t
}

// Update folds the updates into the status as one change, and wakes the subscribers if the status differs. It
// doesn't wait for them. The error is Fold's.
func (t *Tracker) Update(updates ...Update) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.current
	after, err := Fold(before, t.now(), updates...)
	others := !isUnchanged(&before, &after)
	if !others && before.RAM == after.RAM {
		return err
	}
	t.current = after
	if others {
		t.version++
		t.history = append(t.history, Happenings(before, after, t.now())...)
		t.history = slices.Delete(t.history, 0, max(0, len(t.history)-mostHistory))
	}
	if after.State == vmstatus.StateStopped && before.State != vmstatus.StateStopped {
		close(t.stopped)
	}
	for sub := range t.subs {
		select {
		case sub.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// Status returns a snapshot.
func (t *Tracker) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// History returns the latest happenings, the oldest first.
func (t *Tracker) History() []Happening {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Happening{}, t.history...)
}

// Subscribe returns a new subscription; the caller must close it.
func (t *Tracker) Subscribe(pace Pace) *Subscription {
	sub := &Subscription{tracker: t, meter: meter{pace: pace}, wake: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subs[sub] = struct{}{}
	return sub
}

// A Subscription hands out snapshots to one reader.
type Subscription struct {
	tracker *Tracker
	wake    chan struct{}
	meter   meter

	began   bool
	ended   bool
	version uint64 // of the snapshot handed out last
	ram     int64  // in that snapshot
}

// Next waits for a status that differs from the last result, and returns the newest. It returns the first status
// immediately. The last status has state Stopped; after it the error is io.EOF. Any other error is the context's.
func (s *Subscription) Next(ctx context.Context) (Status, error) {
	if s.ended {
		return Status{}, io.EOF
	}
	for {
		status, wait, urgent := s.pollStatus()
		if wait == 0 {
			return status, nil
		}
		if err := s.pauseUntilDue(ctx, wait, urgent); err != nil {
			return Status{}, err
		}
	}
}

// pollStatus returns the status if it is due. Otherwise it returns how long to wait, negative forever, and whether
// only time matters.
func (s *Subscription) pollStatus() (status Status, wait time.Duration, urgent bool) {
	s.tracker.mu.Lock()
	status, version, now := s.tracker.current, s.tracker.version, s.tracker.now()
	s.tracker.mu.Unlock()
	urgent = version != s.version || !s.began
	ram := status.RAM != s.ram
	if !urgent && !ram {
		return status, -1, false
	}
	if wait = s.meter.dueTime(!urgent).Sub(now); wait > 0 && s.began && status.State != vmstatus.StateStopped {
		return status, wait, urgent
	}
	s.began, s.version, s.ram, s.ended = true, version, status.RAM, status.State == vmstatus.StateStopped
	s.meter.noteTold(now, ram)
	return status, 0, urgent
}

// pauseUntilDue waits until a status may have become due.
func (s *Subscription) pauseUntilDue(ctx context.Context, wait time.Duration, urgent bool) error {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	wake := s.wake
	if urgent {
		wake = nil // only the final status still matters
	}
	select {
	case <-over:
	case <-wake:
	case <-s.tracker.stopped:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	delete(s.tracker.subs, s)
}
