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

// Timeouts of the steps that end a VM. The guest has powerdownTimeout. The other timeouts are for QEMU, whether
// it obeys or not.
const (
	quitTime = 10 * time.Second // for QEMU to flush its caches and exit
	termTime = 5 * time.Second
	// agentTime is how long the agent may take to answer.
	agentTime = 2 * time.Second
	// pressAgain is the interval for pressing the power button. A guest that was still in its firmware has missed
	// it.
	pressAgain = 20 * time.Second
)

// method is a way to end a VM, from gentle to forceful.
type method string

const (
	byAgent   method = "guest agent"
	byACPI    method = "ACPI power button"
	byQuit    method = "QMP quit"
	bySIGTERM method = "SIGTERM"
	bySIGKILL method = "SIGKILL"
)

// stopMethods returns all methods, in the order of their use.
func stopMethods() []method { return []method{byAgent, byACPI, byQuit, bySIGTERM, bySIGKILL} }

// isForced reports whether a method leaves the guest no choice.
func (m method) isForced() bool { return m == byQuit || m == bySIGTERM || m == bySIGKILL }

// forceTime returns how long QEMU may take to end after a forcing method.
func (m method) forceTime() time.Duration {
	if m == byQuit {
		return quitTime
	}
	return termTime
}

// stop ends the VM. It tries one method after the other. The next method follows when the time of the current
// method is over, or when the method is refused. The ways to ask the guest share the guest's time: an agent that
// accepts and then does not act must leave time for the power button. The guest's time follows changes of
// powerdownTimeout, and ends immediately when the VM is killed.
type stop struct {
	*line
	keep      *keeper
	ports     *ports
	freeze    *freeze
	agentRole string
	grace     time.Duration // until the runner is killed; 0: unlimited
	timeout   time.Duration // powerdownTimeout

	requested bool
	began     bool // the stop began before QEMU ended
	forced    bool
	begin     time.Time // start of the guest's time

	thawBy   time.Time // when to stop waiting for a frozen guest; zero: not waiting
	search   time.Time // when the search for the guest agent ends; zero: no search
	searched time.Time // when the stop and the search began
	agent    bool      // an agent was found
	left     []method  // methods not tried yet
	step     *stopStep // the current step
}

// stopStep is a method that is being tried.
type stopStep struct {
	how      method
	over     time.Time // for methods that force
	answered bool
	answerBy time.Time
	press    time.Time // when the button is pressed again
}

// guestTime returns the guest's current time for shutting down.
func (s *stop) guestTime() time.Duration {
	if r := s.keep.progress.Stop; r != nil && r.AtOnce {
		return 0
	}
	if s.grace > 0 {
		return min(s.timeout, max(s.grace-config.ForcedStop, 0))
	}
	return s.timeout
}

// requestStop processes a stop request. The first request may be an earlier runner's.
func (s *stop) requestStop(cause string, atOnce bool, sinceBoot time.Duration, now time.Time) {
	first := s.keep.requestStop(cause, atOnce, sinceBoot)
	if !s.requested {
		s.begin = now.Add(first.At - sinceBoot)
	}
	s.requested = true
}

// beginStop starts to end a VM with a running guest.
func (s *stop) beginStop(cause string, now time.Time) {
	s.began, s.left = true, stopMethods()
	s.publishUpdates(status.Entered{State: vmstatus.StateTerminating, Message: cause})
	s.addLog(slog.LevelInfo, "terminating", "state", "Terminating", "cause", cause)
	s.addAction(LeaveAgents{})
	if given := s.guestTime(); given < s.timeout && !s.keep.progress.Stop.AtOnce {
		s.addLog(slog.LevelWarn, "the guest has less time than powerdownTimeout: the pod would be killed before",
			"time", given.String(), "powerdownTimeout", s.timeout.String(), "gracePeriod", s.grace.String())
	}
	s.searched = now
	if s.freeze.thawAll(now) {
		s.thawBy = now.Add(agentTime) // a frozen guest can't be shut down
		return
	}
	s.findAgent(now)
}

// findAgent connects to the guest agent, if the guest runs one.
func (s *stop) findAgent(now time.Time) {
	port := s.ports.findPort(s.agentRole)
	if port == nil || s.guestTime() == 0 {
		return
	}
	s.search = now.Add(agentTime)
	if port.open {
		s.addAction(FindAgent{agentTime})
		return
	}
	s.sendCommand(qmp.Command{Execute: "query-chardev"}, now, func(a answer, now time.Time) {
		open, err := openPorts(a)
		switch {
		case s.search.IsZero():
		case err == nil && open(port.path):
			s.addAction(FindAgent{agentTime})
		default:
			s.agentFound(false, err, now)
		}
	})
}

// agentFound ends the search for the guest agent. The search does not count towards the guest's time.
func (s *stop) agentFound(found bool, err error, now time.Time) {
	if s.search.IsZero() {
		return
	}
	if err != nil {
		s.addLog(slog.LevelWarn, "the guest agent does not answer", "err", err)
	}
	s.search, s.agent = time.Time{}, found
	s.begin = s.begin.Add(now.Sub(s.searched))
}

func (s *stop) nextStep(now time.Time) (wake time.Time) {
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
			if wake := s.waitUntil(now); !wake.IsZero() {
				return wake
			}
			s.step = nil
		}
		if len(s.left) == 0 {
			return time.Time{} // killed: the kernel ends it as soon as possible
		}
		how := s.left[0]
		s.left = s.left[1:]
		if how.isForced() || now.Before(s.deadlineOf(how)) && (how != byAgent || s.agent) {
			s.tryMethod(how, now)
		}
	}
}

var errNoAnswer = errors.New("no answer in time")

// deadlineOf returns when the guest's time for a method is over.
func (s *stop) deadlineOf(how method) time.Time {
	if how == byAgent {
		return s.begin.Add(s.guestTime() / 2)
	}
	return s.begin.Add(s.guestTime())
}

// waitUntil returns the next time to check the current step, or zero if the step is over.
func (s *stop) waitUntil(now time.Time) (wake time.Time) {
	over := s.step.over
	if !s.step.how.isForced() {
		over = s.deadlineOf(s.step.how)
	}
	if !now.Before(over) {
		return time.Time{}
	}
	if !s.step.answered && !now.Before(s.step.answerBy) {
		s.handleAnswer(s.step, errNoAnswer)
		if s.step == nil {
			return time.Time{}
		}
	}
	wake = over
	if !s.step.answered {
		wake = soonestOf(wake, s.step.answerBy)
	}
	if s.step.how == byACPI {
		if !now.Before(s.step.press) {
			s.step.press = now.Add(pressAgain)
			if s.connected {
				s.sendCommand(qmp.Command{Execute: "system_powerdown"}, now, func(answer, time.Time) {})
			}
		}
		wake = soonestOf(wake, s.step.press)
	}
	return wake
}

// tryMethod carries out one step.
func (s *stop) tryMethod(how method, now time.Time) {
	step := &stopStep{how: how, over: now.Add(how.forceTime()), press: now.Add(pressAgain)}
	given := how.forceTime()
	if !how.isForced() {
		given = s.deadlineOf(how).Sub(now)
	}
	step.answerBy = now.Add(min(given, quitTime))
	s.step, s.forced = step, s.forced || how.isForced()
	attrs := []any{"method", string(how), "timeout", given.Round(time.Second).String()}
	if !how.isForced() {
		attrs = append(attrs, "sooner", "vmrunner stop --force")
	}
	s.addLog(slog.LevelInfo, "stopping", attrs...)
	switch how {
	case byAgent:
		s.addAction(ShutDownGuest{min(given, quitTime)})
	case byACPI:
		s.sendCommand(qmp.Command{Execute: "system_powerdown"}, now,
			func(a answer, _ time.Time) { s.handleAnswer(step, a.err) })
	case byQuit:
		s.sendCommand(qmp.Command{Execute: "quit"}, now, func(a answer, _ time.Time) { s.handleAnswer(step, a.err) })
	case bySIGTERM:
		step.answered = true
		s.addAction(Signal{syscall.SIGTERM})
	case bySIGKILL:
		step.answered = true
		s.addAction(Signal{syscall.SIGKILL})
	}
}

// agentAnswered processes the guest agent's answer to the request to shut the guest down.
func (s *stop) agentAnswered(err error) {
	if s.step != nil && s.step.how == byAgent {
		s.handleAnswer(s.step, err)
	}
}

// handleAnswer processes the result of a step. A failed step is over, except for the power button: a slow QEMU may
// still press it, so the guest keeps its time.
func (s *stop) handleAnswer(step *stopStep, err error) {
	if s.step != step || step.answered {
		return
	}
	step.answered = true
	if err == nil || step.how == byQuit && errors.Is(err, qmp.ErrClosed) {
		return
	}
	s.addLog(slog.LevelWarn, "stopping", "method", string(step.how), "err", err)
	if step.how != byACPI || isRefusal(err) {
		s.step = nil
	}
}
