package controller

import (
	"sync"
	"time"

	"vmop/manager/vm/objects"
)

// longestRestart is how long a VM that doesn't come up again delays the restarts of other VMs.
const longestRestart = 30 * time.Minute

// restartTurns decides which VM the manager restarts next. It limits how many VMs restart at the same time, and
// waits between restarts. A manager that has just started waits first, and learns from the statuses which VMs are
// restarting. A manager that is killed repeatedly therefore restarts VMs more slowly, and never faster.
type restartTurns struct {
	mu   sync.Mutex
	next time.Time            // the earliest time of another turn
	busy map[string]time.Time // when the restart of each VM began, by name
}

// claimTurn reports whether it is the VM's turn, and reserves the turn in this case. Otherwise it returns when to ask
// again.
func (t *restartTurns) claimTurn(name string, limit objects.Restarts, now time.Time) (mine bool, again time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, has := t.busy[name]; has {
		return true, time.Time{}
	}
	t.beginPause(now)
	under := 0
	for _, since := range t.busy {
		if now.Sub(since) < longestRestart {
			under++
		}
	}
	switch {
	case now.Before(t.next):
		return false, t.next
	case under >= limit.AtOnce:
		return false, now.Add(retryTurn)
	}
	t.next = now.Add(limit.Pause)
	t.keepTurn(name, now)
	return true, time.Time{}
}

// retryTurn is the delay before a VM that waits for others asks again for its turn.
const retryTurn = 5 * time.Second

// setBusy records whether a VM that needs no turn is restarting.
func (t *restartTurns) setBusy(name string, busy bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beginPause(now)
	if !busy {
		delete(t.busy, name)
	} else if _, has := t.busy[name]; !has {
		t.keepTurn(name, now)
	}
}

// learningTime is how long a manager observes the VMs before its first restart.
const learningTime = 5 * time.Second

// beginPause starts the initial wait when the first VM is reconciled.
func (t *restartTurns) beginPause(now time.Time) {
	if t.next.IsZero() {
		t.next = now.Add(learningTime)
	}
}

func (t *restartTurns) keepTurn(name string, now time.Time) {
	if t.busy == nil {
		t.busy = map[string]time.Time{}
	}
	t.busy[name] = now
}
