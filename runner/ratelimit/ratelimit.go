// Package ratelimit bounds what a guest or a stranger can make the log say.
package ratelimit

import "time"

// A Limit lets through a burst, and after that one line per interval. It counts
// what it holds back. It is not safe for concurrent use.
type Limit struct {
	// Burst is how many may pass at once, at least 1.
	Burst int
	// Every is the time after which one more may pass.
	Every time.Duration

	full     time.Time // when the whole burst is available again
	withheld int
}

// Allow reports whether the next one may pass at the time now, and how many
// before it were held back since one passed.
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
