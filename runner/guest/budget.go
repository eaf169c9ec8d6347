package guest

import "time"

// A budget limits how often a guest can cause work on the host: burst times immediately, and once per interval
// every in the long run (the generic cell rate algorithm of ITU-T I.371).
type budget struct {
	every time.Duration
	burst int
	full  time.Time // when the whole burst is available again
}

// spendOne uses one unit of the budget if there is one left. Otherwise it returns how long to wait for the next
// unit.
func (b *budget) spendOne(now time.Time) (wait time.Duration) {
	if b.full.Before(now) {
		b.full = now
	}
	if wait = b.full.Sub(now) - time.Duration(b.burst-1)*b.every; wait > 0 {
		return wait
	}
	b.full = b.full.Add(b.every)
	return 0
}
