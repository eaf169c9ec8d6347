package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
)

// reset resets the machine when the counter has become larger. Needs no rule:
// every machine can be reset.
type reset struct {
	dialogue
	state   *runState
	seen    *int64
	held    bool // a wish that must wait
	problem string
}

func newReset(state *runState, start Start) *reset {
	return &reset{state: state, seen: start.ResetCounter}
}

func (r *reset) next(want *Desired, _ time.Time) {
	if want.ResetCounter == nil || r.busy() {
		return
	}
	counter := *want.ResetCounter
	switch {
	case r.seen != nil && counter == *r.seen:
		if r.held {
			r.held, r.problem = false, "" // the wish was withdrawn
		}
	case r.seen == nil || counter < *r.seen || !r.state.ran:
		r.seen, r.held, r.problem = &counter, false, ""
	case want.NoReset != "":
		r.held, r.problem = true, want.NoReset
	case !r.state.running:
		r.held, r.problem = true, "the VM is reset when it runs again"
	default:
		// Once, whatever the answer: a reset that is repeated because its
		// answer was lost would hit a guest that boots.
		r.seen, r.held, r.problem = &counter, false, ""
		r.send(func(answers []answer, _ time.Time) {
			if err := fault(answers); err != nil {
				r.problem = fmt.Sprintf("reset the VM: %v; a larger counter tries again", err)
			}
		}, qmp.Command{Execute: "system_reset"})
	}
}

func (r *reset) observe(event, time.Time) {}
func (r *reset) wake() time.Time          { return time.Time{} }
func (r *reset) doubt()                   {}

func (r *reset) report(f *Facts) {
	f.ResetCounter = r.seen
	f.add("resetCounter", r.problem)
}
