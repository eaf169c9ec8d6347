package vm

import (
	"sync"
	"time"

	"vmop/manager/objects"
)

// longestRestart is how long a VM that doesn't come up again keeps others from being restarted.
const longestRestart = 30 * time.Minute

// restartTurns says which VM is restarted by the manager next: not more than some at once, and
// with a pause in between. A manager that has just started makes a pause first, and learns
// from the statuses of the VMs which are being restarted: one that is killed again and again
// restarts VMs more slowly, and never faster.
type restartTurns struct {
	mu   sync.Mutex
	next time.Time            // when there is another turn at the earliest
	busy map[string]time.Time // since when the VMs are being restarted, by name
}

// claim reports whether it is a VM's turn, which it has then; if not, it is asked again at a time.
func (t *restartTurns) claim(name string, limit objects.Restarts, now time.Time) (mine bool, again time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, has := t.busy[name]; has {
		return true, time.Time{}
	}
	t.begin(now)
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
	t.keep(name, now)
	return true, time.Time{}
}

// retryTurn is when a VM asks for its turn again that waits for others.
const retryTurn = 5 * time.Second

// set notes whether a VM is being restarted that needs no turn.
func (t *restartTurns) set(name string, busy bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(now)
	if !busy {
		delete(t.busy, name)
	} else if _, has := t.busy[name]; !has {
		t.keep(name, now)
	}
}

// learningTime is how long a manager looks at the VMs before it restarts one.
const learningTime = 5 * time.Second

// begin begins with a pause, when the first VM is looked at.
func (t *restartTurns) begin(now time.Time) {
	if t.next.IsZero() {
		t.next = now.Add(learningTime)
	}
}

func (t *restartTurns) keep(name string, now time.Time) {
	if t.busy == nil {
		t.busy = map[string]time.Time{}
	}
	t.busy[name] = now
}
