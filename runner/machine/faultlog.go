package machine

import (
	"fmt"
	"slices"
	"time"

	"vmop/vmstatus"
)

// Bounds of a fault log.
const (
	maxFaults = 32
	quietTime = 10 * time.Minute // after which a fault that was only an event is forgotten
)

// A faultLog has the faults of a machine that are events, not states. What
// happens repeatedly is one entry with a count. Entries are dropped when the
// fault has not recurred for a while, unless they are lasting.
type faultLog struct{ entries []fault }

type fault struct {
	reason  vmstatus.Reason
	subject string // a drive, for example
	text    string
	lasting bool
	count   int
	last    time.Time
	logged  int // the count that was logged last
}

// add records that something has happened.
func (l *faultLog) add(f fault, now time.Time) {
	f.count, f.last = 1, now
	i := slices.IndexFunc(l.entries, func(o fault) bool { return o.reason == f.reason && o.subject == f.subject })
	if i >= 0 {
		f.count, f.logged = f.count+l.entries[i].count, l.entries[i].logged
		l.entries[i] = f
		return
	}
	if len(l.entries) == maxFaults {
		l.entries = slices.Delete(l.entries, 0, 1)
	}
	l.entries = append(l.entries, f)
}

// forget drops the faults of a kind.
func (l *faultLog) forget(reason vmstatus.Reason) {
	l.entries = slices.DeleteFunc(l.entries, func(f fault) bool { return f.reason == reason })
}

// expire drops what has not recurred, and returns when to call it again; zero if
// there is nothing to drop.
func (l *faultLog) expire(now time.Time) (next time.Time) {
	l.entries = slices.DeleteFunc(l.entries, func(f fault) bool {
		return !f.lasting && !f.last.Add(quietTime).After(now)
	})
	for _, f := range l.entries {
		if !f.lasting {
			next = soonest(next, f.last.Add(quietTime))
		}
	}
	return next
}

// messages are the faults of a kind, for the status.
func (l *faultLog) messages(reason vmstatus.Reason) (texts []string) {
	for _, f := range l.entries {
		if f.reason == reason {
			texts = append(texts, f.String())
		}
	}
	return texts
}

// unlogged returns the faults that are not in the log yet, and marks them as
// logged.
func (l *faultLog) unlogged() (list []fault) {
	for i := range l.entries {
		if f := &l.entries[i]; f.logged != f.count {
			f.logged = f.count
			list = append(list, *f)
		}
	}
	return list
}

func (f fault) String() string {
	s := f.text
	if f.subject != "" {
		s = f.subject + ": " + s
	}
	if f.count > 1 {
		s += fmt.Sprintf(" (%d times, last at %s)", f.count, clock(f.last))
	}
	return s
}
