// Package ratelimit limits how much a guest or a stranger can write to the log.
package ratelimit

import "time"

// A Limit allows a burst of lines, followed by one line per interval. It counts the withheld lines. It isn't safe
// for concurrent use.
type Limit struct {
	// Burst is the number of lines in a burst, at least 1.
	Burst int
	// Every is the time until a further line is allowed.
	Every time.Duration

	full     time.Time // when the whole burst is available again
	withheld int
}

// Allow reports whether a line is allowed at the time now. It also returns the number of lines withheld since the
// last allowed line.
func (l *Limit) Allow(now time.Time) (withheld int, ok bool) {
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) > time.Duration(l.Burst-1)*l.Every {
		l.withheld++
		return 0, false
	}
	l.full = l.full.Add(l.Every)
	withheld, l.withheld = l.withheld, 0
	return withheld, true
}
