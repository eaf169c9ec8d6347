package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
)

// reset resets the machine when the counter has increased. It needs no rule, because every machine can be reset.
type reset struct {
	dialogue
	state   *runState
	seen    *int64
	held    bool // a wanted reset must wait
	problem string
}

func newReset(state *runState, start Start) *reset {
	return &reset{state: state, seen: start.ResetCounter}
}

func (r *reset) nextStep(want *Desired, _ time.Time) {
	if want.ResetCounter == nil || r.isBusy() {
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
		// Only once, independent of the answer: if a reset were repeated because its answer was lost, it would
		// hit a booting guest.
		r.seen, r.held, r.problem = &counter, false, ""
		r.sendBatch(func(answers []answer, _ time.Time) {
			if err := firstError(answers); err != nil {
				r.problem = fmt.Sprintf("reset the VM: %v; a larger counter tries again", err)
			}
		}, qmp.Command{Execute: "system_reset"})
	}
}

func (r *reset) observeEvent(event, time.Time) {}
func (r *reset) wakeTime() time.Time           { return time.Time{} }
func (r *reset) doubtState()                   {}

func (r *reset) reportFacts(f *Facts) {
	f.ResetCounter = r.seen
	f.addProblem("resetCounter", r.problem)
}
