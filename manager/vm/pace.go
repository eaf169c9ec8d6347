package vm

import (
	"sync"
	"time"
)

// rate is how fast VMs are written anew.
type rate struct {
	interval time.Duration // from one VM to the next
	burst    int           // VMs at once
}

// calmly is for VMs that are as they shall be, of which a manager of another version,
// or with another configuration, may make other objects: nothing waits for that, and
// the API server has other things to do.
func calmly() rate { return rate{20 * time.Millisecond, 20} }

// pace gives turns.
type pace struct {
	rate
	mu   sync.Mutex
	next time.Time
}

// turn returns when it is somebody's turn, which is taken then.
func (p *pace) turn(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := now.Add(-time.Duration(p.burst-1) * p.interval)
	if at.Before(p.next) {
		at = p.next
	}
	p.next = at.Add(p.interval)
	if at.Before(now) {
		return now
	}
	return at
}

// A place is where a VM stands in the order in which VMs are written anew.
type place struct {
	epoch int64     // of the settings with which the VM was as it shall be
	turn  time.Time // zero: it has none
}

// atRest tells whether a VM is as it shall be, as far as its user can see: then
// whatever is to be written has no hurry.
func (v *visit) atRest() bool {
	if v.vm.Generation != v.vm.Status.ObservedGeneration || v.vm.Status.Phase == "" || terminating(v.pod) {
		return false
	}
	if v.wanted() {
		return runs(v.pod)
	}
	return v.pod == nil
}

// mayWrite tells whether it is the VM's turn to be written, and lets it be looked
// at again when it is. A VM that has been as it shall be with these settings need
// not wait: somebody has changed something.
func (c *reconciler) mayWrite(v *visit) bool {
	mine := &v.memory.place
	if !v.resting || mine.epoch == v.epoch {
		return true
	}
	if mine.turn.IsZero() {
		mine.turn = c.pace.turn(v.now)
	}
	if v.now.Before(mine.turn) {
		v.delayed = true
		v.lookAgain(mine.turn)
		return false
	}
	return true
}

// served notes at the end of a visit that all was written that was to be.
func (v *visit) served() {
	if !v.delayed {
		v.memory.place = place{epoch: v.epoch}
	}
}
