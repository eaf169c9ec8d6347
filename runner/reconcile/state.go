package reconcile

import (
	"time"

	"vmop/qmp"
)

// runState follows whether the guest runs. Other rules look at it.
type runState struct {
	dialogue
	pace
	running bool
	ran     bool // the guest has run at some time
	unsure  bool
}

func (s *runState) next(_ *Desired, now time.Time) {
	if !s.unsure || s.busy() || !s.ready(now) {
		return
	}
	s.unsure = false // an event that comes before the answer is asked about, too
	s.send(func(answers []answer, now time.Time) {
		var status struct{ Running bool }
		if answers[0].decode(&status) != nil {
			s.unsure = true
			s.failed(now)
			return
		}
		s.succeeded()
		s.set(status.Running)
	}, qmp.Command{Execute: "query-status"})
}

func (s *runState) observe(e event, _ time.Time) {
	switch e.name {
	case "RESUME":
		s.set(true)
	case "STOP", "SHUTDOWN":
		s.set(false)
	default:
		return
	}
	if s.busy() { // the answer may be older than the event, or newer
		s.unsure = true
	}
}

func (s *runState) set(running bool) {
	s.running = running
	s.ran = s.ran || running
}

func (s *runState) doubt()          { s.unsure = true }
func (s *runState) report(f *Facts) { f.Running = s.running }
