package guest

import "time"

// A Budget bounds how often a guest can make the host do something: Burst times
// at once, and once in each time Every in the long run (the generic cell rate
// algorithm of ITU-T I.371).
type Budget struct {
	Every time.Duration
	Burst int
	full  time.Time // when the whole burst is available again
}

// Spend takes one from the budget if there is one left. Otherwise it returns
// how long to wait for the next.
func (b *Budget) Spend(now time.Time) (wait time.Duration) {
	if b.full.Before(now) {
		b.full = now
	}
	if wait = b.full.Sub(now) - time.Duration(b.Burst-1)*b.Every; wait > 0 {
		return wait
	}
	b.full = b.full.Add(b.Every)
	return 0
}
