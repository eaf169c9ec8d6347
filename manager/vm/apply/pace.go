package apply

import (
	"sync"
	"time"
)

// Rate limits how fast VMs are rewritten.
type Rate struct {
	Interval time.Duration // from one VM to the next
	Burst    int           // VMs that may be rewritten without a delay
}

// Unhurried returns the rate for VMs that are up to date except that this manager, because of its version or
// configuration, creates different objects. The API server has more urgent work.
func Unhurried() Rate { return Rate{20 * time.Millisecond, 20} }

// pace hands out turns.
type pace struct {
	Rate
	mu   sync.Mutex
	next time.Time
}

// reserveTurn reserves the next turn, and returns its time.
func (p *pace) reserveTurn(now time.Time) time.Time {
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

// turn describes when a VM may be rewritten.
type turn struct {
	epoch int64     // of the settings for which the VM was last complete
	at    time.Time // zero: no turn is reserved
}

// mayWrite reports whether the VM may be written now. Otherwise it schedules a reconciliation for the VM's turn. A
// VM that was complete with these settings needn't wait, since only a change of its objects or its definition can be
// the cause.
func (r *Round) mayWrite() bool {
	mine := &r.memory.turn
	if !r.settled || mine.epoch == r.epoch {
		return true
	}
	if mine.at.IsZero() {
		mine.at = r.w.pace.reserveTurn(r.Now)
	}
	if r.Now.Before(mine.at) {
		r.delayed = true
		r.retryAt(mine.at)
		return false
	}
	return true
}
