package runner

import "time"

// A trickle lets some of what comes too often through: a burst, then one in a
// while. What it holds back it counts.
type trickle struct {
	burst    int
	every    time.Duration
	full     time.Time // when the whole burst is available again
	withheld int
}

// lets tells whether the next one may pass, and how many before it might not.
func (t *trickle) lets(now time.Time) (withheld int, ok bool) {
	if t.full.Before(now) {
		t.full = now
	}
	if t.full.Sub(now) > time.Duration(t.burst-1)*t.every {
		t.withheld++
		return 0, false
	}
	t.full = t.full.Add(t.every)
	withheld, t.withheld = t.withheld, 0
	return withheld, true
}
