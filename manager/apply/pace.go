package apply

import (
	"sync"
	"time"
)

// A Rate limits how fast VMs are rewritten.
type Rate struct {
	Interval time.Duration // from one VM to the next
	Burst    int           // VMs at once
}

// Unhurried is for VMs that are as they should be, of which a manager of another version,
// or with another configuration, makes other objects: the API server has more urgent work.
func Unhurried() Rate { return Rate{20 * time.Millisecond, 20} }

// pace hands out turns.
type pace struct {
	Rate
	mu   sync.Mutex
	next time.Time
}

// reserve reserves the next turn, and returns when it is.
func (p *pace) reserve(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now.Add(-time.Duration(p.Burst-1) * p.Interval)
	if at.Before(p.next) {
		at = p.next
	}
	p.next = at.Add(p.Interval)
	if at.Before(now) {
		return now
	}
	return at
}

// A turn is when a VM may be rewritten.
type turn struct {
	epoch int64     // of the settings with which the VM was last complete
	at    time.Time // zero: it has not taken a turn
}

// mayWrite reports whether the VM may be written now, and else makes it be reconciled
// when it may. A VM that was complete with these settings needn't wait: its objects or its
// definition have been changed.
func (r *Round) mayWrite() bool {
	mine := &r.memory.turn
	if !r.settled || mine.epoch == r.epoch {
		return true
	}
	if mine.at.IsZero() {
		mine.at = r.w.pace.reserve(r.Now)
	}
	if r.Now.Before(mine.at) {
		r.delayed = true
		r.retryAt(mine.at)
		return false
	}
	return true
}
