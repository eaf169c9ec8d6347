package reconcile

import (
	"time"

	"vmop/qmp"
)

// runState tracks whether the guest runs, for other rules.
type runState struct {
	dialogue
	pace
	running bool
	ran     bool // the guest has run at some time
	unsure  bool
}

func (s *runState) nextStep(_ *Desired, now time.Time) {
	if !s.unsure || s.isBusy() || !s.isReady(now) {
		return
	}
	s.unsure = false // an event before the answer sets it again
	s.sendBatch(func(answers []answer, now time.Time) {
		var status struct{ Running bool }
		if answers[0].decodeInto(&status) != nil {
			s.unsure = true
			s.delayNext(now)
			return
		}
		s.forgetFailures()
		s.setRunning(status.Running)
	}, qmp.Command{Execute: "query-status"})
}

func (s *runState) observeEvent(e event, _ time.Time) {
	switch e.name {
	case "RESUME":
		s.setRunning(true)
	case "STOP", "SHUTDOWN":
		s.setRunning(false)
	default:
		return
	}
	if s.isBusy() { // the answer may be older or newer than the event
		s.unsure = true
	}
}

func (s *runState) setRunning(running bool) {
	s.running = running
	s.ran = s.ran || running
}

func (s *runState) doubtState()          { s.unsure = true }
func (s *runState) reportFacts(f *Facts) { f.Running = s.running }
