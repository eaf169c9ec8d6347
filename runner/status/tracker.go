package status

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"vmop/vmstatus"
)

// A Tracker holds the status of a VM while it changes. All methods may be
// called from any goroutine.
type Tracker struct {
	now     func() time.Time
	stopped chan struct{} // closed when the state is Stopped

	mu      sync.Mutex
	current Status
	version uint64 // counts changes, those of the memory alone left out
	subs    map[*Subscription]struct{}
	history []Happening // the latest, oldest first
}

// mostHistory is how many happenings are kept: a guest can reset itself without end.
const mostHistory = 100

// NewTracker begins with a status in state Initializing and some updates. The
// clock is time.Now, or a test's.
func NewTracker(now func() time.Time, updates ...Update) *Tracker {
	t := &Tracker{now: now, stopped: make(chan struct{}), subs: map[*Subscription]struct{}{}}
	_ = t.Update(updates...) // from nowhere every state can be entered
	return t
}

// Update folds updates into the status, all at once, and tells the subscribers
// if that changed anything. It doesn't wait for them. The error is that of Fold.
func (t *Tracker) Update(updates ...Update) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.current
	after, err := Fold(before, t.now(), updates...)
	others := !same(&before, &after)
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

// History returns what has happened last, the oldest first.
func (t *Tracker) History() []Happening {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Happening{}, t.history...)
}

// Subscribe begins a subscription, which must be closed.
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
	ram     int64  // in it
}

// Next waits for a status that differs from the one it returned last, and
// returns the newest. The first comes at once, the last is of state Stopped;
// after it the error is io.EOF. Otherwise the error is the context's.
func (s *Subscription) Next(ctx context.Context) (Status, error) {
	if s.ended {
		return Status{}, io.EOF
	}
	for {
		status, wait, urgent := s.poll()
		if wait == 0 {
			return status, nil
		}
		if err := s.pause(ctx, wait, urgent); err != nil {
			return Status{}, err
		}
	}
}

// poll returns the status if it is time for it; otherwise how long to wait,
// for ever if negative, and whether only time matters.
func (s *Subscription) poll() (status Status, wait time.Duration, urgent bool) {
	s.tracker.mu.Lock()
	status, version, now := s.tracker.current, s.tracker.version, s.tracker.now()
	s.tracker.mu.Unlock()
	urgent = version != s.version || !s.began
	ram := status.RAM != s.ram
	if !urgent && !ram {
		return status, -1, false
	}
	if wait = s.meter.due(!urgent).Sub(now); wait > 0 && s.began && status.State != vmstatus.StateStopped {
		return status, wait, urgent
	}
	s.began, s.version, s.ram, s.ended = true, version, status.RAM, status.State == vmstatus.StateStopped
	s.meter.told(now, ram)
	return status, 0, urgent
}

// pause waits until something may have become due.
func (s *Subscription) pause(ctx context.Context, wait time.Duration, urgent bool) error {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	wake := s.wake
	if urgent {
		wake = nil // more news changes nothing, but for the last
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
