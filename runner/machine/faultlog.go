package machine

import (
	"fmt"
	"slices"
	"time"

	"vmop/vmstatus"
)

// Limits of a faultLog.
const (
	maxFaults = 32
	quietTime = 10 * time.Minute // until a one-time problem is forgotten
)

// A faultLog contains a machine's problems that are events rather than states. A repeated problem is one entry
// with a count. Entries are dropped when the problem has not recurred for quietTime, unless they are lasting.
type faultLog struct{ entries []fault }

type fault struct {
	reason  vmstatus.Reason
	subject string // a drive, for example
	text    string
	lasting bool
	count   int
	last    time.Time
	logged  int // the count when it was last logged
}

// addFault records a problem.
func (l *faultLog) addFault(f fault, now time.Time) {
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

// forgetKind drops the problems with a reason.
func (l *faultLog) forgetKind(reason vmstatus.Reason) {
	l.entries = slices.DeleteFunc(l.entries, func(f fault) bool { return f.reason == reason })
}

// expireFaults drops problems that have not recurred. It returns when to call it again, or zero if no entry can expire.
func (l *faultLog) expireFaults(now time.Time) (next time.Time) {
	l.entries = slices.DeleteFunc(l.entries, func(f fault) bool {
		return !f.lasting && !f.last.Add(quietTime).After(now)
	})
	for _, f := range l.entries {
		if !f.lasting {
			next = soonestOf(next, f.last.Add(quietTime))
		}
	}
	return next
}

// faultMessages returns the problems with a reason, for the status.
func (l *faultLog) faultMessages(reason vmstatus.Reason) (texts []string) {
	for _, f := range l.entries {
		if f.reason == reason {
			texts = append(texts, f.String())
		}
	}
	return texts
}

// unloggedFaults returns the problems that have not been logged yet, and marks them as logged.
func (l *faultLog) unloggedFaults() (list []fault) {
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
		s += fmt.Sprintf(" (%d times, last at %s)", f.count, clockTime(f.last))
	}
	return s
}
