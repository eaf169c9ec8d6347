package runner

import (
	"fmt"
	"slices"
	"time"

	"vmop/runner/status"
)

// Bounds of a ledger.
const (
	maxNotes  = 32
	quietTime = 10 * time.Minute // after which what happened is history
)

// A ledger has what has gone wrong with a machine: events, not states. What
// happens again and again is one note with a count. Notes are dropped when the
// trouble has been quiet for a while, unless they are lasting.
type ledger struct{ notes []note }

type note struct {
	reason  status.Reason
	subject string // a drive, for example
	text    string
	lasting bool
	count   int
	last    time.Time
	told    int // the count that is in the log
}

// add notes that something has happened.
func (l *ledger) add(n note, now time.Time) {
	n.count, n.last = 1, now
	i := slices.IndexFunc(l.notes, func(o note) bool { return o.reason == n.reason && o.subject == n.subject })
	if i >= 0 {
		n.count, n.told = n.count+l.notes[i].count, l.notes[i].told
		l.notes[i] = n
		return
	}
	if len(l.notes) == maxNotes {
		l.notes = slices.Delete(l.notes, 0, 1)
	}
	l.notes = append(l.notes, n)
}

// forget drops the notes of a kind.
func (l *ledger) forget(reason status.Reason) {
	l.notes = slices.DeleteFunc(l.notes, func(n note) bool { return n.reason == reason })
}

// expire drops what is history, and returns when to ask again; zero if there is
// nothing to drop.
func (l *ledger) expire(now time.Time) (next time.Time) {
	l.notes = slices.DeleteFunc(l.notes, func(n note) bool { return !n.lasting && !n.last.Add(quietTime).After(now) })
	for _, n := range l.notes {
		if at := n.last.Add(quietTime); !n.lasting && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// messages are the notes of a kind, for the status.
func (l *ledger) messages(reason status.Reason) (texts []string) {
	for _, n := range l.notes {
		if n.reason == reason {
			texts = append(texts, n.String())
		}
	}
	return texts
}

// fresh returns the notes that are not in the log yet, and takes them for told.
func (l *ledger) fresh() (list []note) {
	for i := range l.notes {
		if n := &l.notes[i]; n.told != n.count {
			n.told = n.count
			list = append(list, *n)
		}
	}
	return list
}

func (n note) String() string {
	s := n.text
	if n.subject != "" {
		s = n.subject + ": " + s
	}
	if n.count > 1 {
		s += fmt.Sprintf(" (%d times, last at %s)", n.count, n.last.UTC().Format(time.TimeOnly+"Z"))
	}
	return s
}
