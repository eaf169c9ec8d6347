package machine

import (
	"errors"
	"log/slog"
	"syscall"
	"time"

	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// Times of the steps that end a VM. The guest has powerdownTimeout; what
// follows is for a QEMU that obeys, and for one that does not.
const (
	quitTime = 10 * time.Second // to flush its caches and end
	termTime = 5 * time.Second
	// agentTime is what the agent has to answer that it is there.
	agentTime = 2 * time.Second
	// pressAgain: a guest that was still in its firmware has missed the power
	// button.
	pressAgain = 20 * time.Second
)

// method is a way to end a VM, from kind to rude.
type method string

const (
	byAgent   method = "guest agent"
	byACPI    method = "ACPI power button"
	byQuit    method = "QMP quit"
	bySIGTERM method = "SIGTERM"
	bySIGKILL method = "SIGKILL"
)

// methods are all of them, in the order in which they are tried.
func methods() []method { return []method{byAgent, byACPI, byQuit, bySIGTERM, bySIGKILL} }

// forces reports whether a method leaves the guest no choice.
func (m method) forces() bool { return m == byQuit || m == bySIGTERM || m == bySIGKILL }

// forceTime is what QEMU has to end by a method that forces.
func (m method) forceTime() time.Duration {
	if m == byQuit {
		return quitTime
	}
	return termTime
}

// stop ends the VM: each method has its time, and the next one follows when that
// is over or when it is refused. The guest's time is shared by the ways of asking
// it: an agent that accepts and then does nothing must leave time for the power
// button. It follows a changed powerdownTimeout, and is over at once when the VM
// is killed.
type stop struct {
	*line
	keep      *keeper
	ports     *ports
	freeze    *freeze
	agentRole string
	grace     time.Duration // when the runner is killed; 0: never
	timeout   time.Duration // powerdownTimeout

	requested bool
	began     bool // before QEMU ended
	forced    bool
	begin     time.Time // the guest's time counts from here

	thawBy   time.Time // when a frozen guest is waited for no longer; zero: none is
	search   time.Time // when the search for the guest agent is over; zero: there is none
	searched time.Time // when it began
	agent    bool      // one was found
	left     []method  // not tried yet
	step     *stopStep // the one that is being tried
}

// stopStep is a method that is being tried.
type stopStep struct {
	how      method
	over     time.Time // of one that forces
	answered bool
	answerBy time.Time
	press    time.Time // when the button is pressed again
}

// guestTime is what the guest has for shutting down, as things stand.
func (s *stop) guestTime() time.Duration {
	if r := s.keep.progress.Stop; r != nil && r.AtOnce {
		return 0
	}
	if s.grace > 0 {
		return min(s.timeout, max(s.grace-config.ForcedStop, 0))
	}
	return s.timeout
}

// request takes in a stop request, the first of which may be an earlier runner's.
func (s *stop) request(cause string, atOnce bool, sinceBoot time.Duration, now time.Time) {
	first := s.keep.requestStop(cause, atOnce, sinceBoot)
	if !s.requested {
		s.begin = now.Add(first.At - sinceBoot)
	}
	s.requested = true
}

// start begins to end a VM whose guest runs.
func (s *stop) start(cause string, now time.Time) {
	s.began, s.left = true, methods()
	s.publish(status.Entered{State: vmstatus.StateTerminating, Message: cause})
	s.log(slog.LevelInfo, "terminating", "state", "Terminating", "cause", cause)
	s.do(LeaveAgents{})
	if given := s.guestTime(); given < s.timeout && !s.keep.progress.Stop.AtOnce {
		s.log(slog.LevelWarn, "the guest has less time than powerdownTimeout: the pod would be killed before",
			"time", given.String(), "powerdownTimeout", s.timeout.String(), "gracePeriod", s.grace.String())
	}
	s.searched = now
	if s.freeze.end(now) {
		s.thawBy = now.Add(agentTime) // what is frozen can't be shut down
		return
	}
	s.findAgent(now)
}

// findAgent connects with the guest agent, if the guest runs one.
func (s *stop) findAgent(now time.Time) {
	port := s.ports.find(s.agentRole)
	if port == nil || s.guestTime() == 0 {
		return
	}
	s.search = now.Add(agentTime)
	if port.open {
		s.do(FindAgent{agentTime})
		return
	}
	s.send(qmp.Command{Execute: "query-chardev"}, now, func(a answer, now time.Time) {
		open, err := openPorts(a)
		switch {
		case s.search.IsZero():
		case err == nil && open(port.path):
			s.do(FindAgent{agentTime})
		default:
			s.agentFound(false, err, now)
		}
	})
}

// agentFound ends the search for the guest agent. The time it took is not the
// guest's.
func (s *stop) agentFound(found bool, err error, now time.Time) {
	if s.search.IsZero() {
		return
	}
	if err != nil {
		s.log(slog.LevelWarn, "the guest agent does not answer", "err", err)
	}
	s.search, s.agent = time.Time{}, found
	s.begin = s.begin.Add(now.Sub(s.searched))
}

func (s *stop) next(now time.Time) (wake time.Time) {
	if !s.began {
		return time.Time{}
	}
	if !s.thawBy.IsZero() {
		if s.freeze.step != isThawed && now.Before(s.thawBy) && s.guestTime() > 0 {
			return s.thawBy
		}
		s.thawBy = time.Time{}
		s.findAgent(now)
	}
	if !s.search.IsZero() {
		if now.Before(s.search) {
			return s.search
		}
		s.agentFound(false, errNoAnswer, now)
	}
	for {
		if s.step != nil {
			if wake := s.waits(now); !wake.IsZero() {
				return wake
			}
			s.step = nil
		}
		if len(s.left) == 0 {
			return time.Time{} // killed: the kernel ends it as soon as it can
		}
		how := s.left[0]
		s.left = s.left[1:]
		if how.forces() || now.Before(s.late(how)) && (how != byAgent || s.agent) {
			s.try(how, now)
		}
	}
}

var errNoAnswer = errors.New("no answer in time")

// late is when the guest's time for a method is over.
func (s *stop) late(how method) time.Time {
	if how == byAgent {
		return s.begin.Add(s.guestTime() / 2)
	}
	return s.begin.Add(s.guestTime())
}

// waits returns until when the step that is being tried is to be waited for, at
// least; zero if it is over.
func (s *stop) waits(now time.Time) (wake time.Time) {
	over := s.step.over
	if !s.step.how.forces() {
		over = s.late(s.step.how)
	}
	if !now.Before(over) {
		return time.Time{}
	}
	if !s.step.answered && !now.Before(s.step.answerBy) {
		s.answered(s.step, errNoAnswer)
		if s.step == nil {
			return time.Time{}
		}
	}
	wake = over
	if !s.step.answered {
		wake = soonest(wake, s.step.answerBy)
	}
	if s.step.how == byACPI {
		if !now.Before(s.step.press) {
			s.step.press = now.Add(pressAgain)
			if s.connected {
				s.send(qmp.Command{Execute: "system_powerdown"}, now, func(answer, time.Time) {})
			}
		}
		wake = soonest(wake, s.step.press)
	}
	return wake
}

// try takes one step.
func (s *stop) try(how method, now time.Time) {
	step := &stopStep{how: how, over: now.Add(how.forceTime()), press: now.Add(pressAgain)}
	given := how.forceTime()
	if !how.forces() {
		given = s.late(how).Sub(now)
	}
	step.answerBy = now.Add(min(given, quitTime))
	s.step, s.forced = step, s.forced || how.forces()
	attrs := []any{"method", string(how), "timeout", given.Round(time.Second).String()}
	if !how.forces() {
		attrs = append(attrs, "sooner", "vmrunner stop --force")
	}
	s.log(slog.LevelInfo, "stopping", attrs...)
	switch how {
	case byAgent:
		s.do(ShutDownGuest{min(given, quitTime)})
	case byACPI:
		s.send(qmp.Command{Execute: "system_powerdown"}, now, func(a answer, _ time.Time) { s.answered(step, a.err) })
	case byQuit:
		s.send(qmp.Command{Execute: "quit"}, now, func(a answer, _ time.Time) { s.answered(step, a.err) })
	case bySIGTERM:
		step.answered = true
		s.do(Signal{syscall.SIGTERM})
	case bySIGKILL:
		step.answered = true
		s.do(Signal{syscall.SIGKILL})
	}
}

// agentAnswered takes in what the guest agent said when it was asked to shut the
// guest down.
func (s *stop) agentAnswered(err error) {
	if s.step != nil && s.step.how == byAgent {
		s.answered(s.step, err)
	}
}

// answered takes in what became of a step. One that failed is over, but for the
// power button: a QEMU that stalls may still press it, so the guest keeps its
// time.
func (s *stop) answered(step *stopStep, err error) {
	if s.step != step || step.answered {
		return
	}
	step.answered = true
	if err == nil || step.how == byQuit && errors.Is(err, qmp.ErrClosed) {
		return
	}
	s.log(slog.LevelWarn, "stopping", "method", string(step.how), "err", err)
	if step.how != byACPI || refused(err) {
		s.step = nil
	}
}
