package machine

import (
	"log/slog"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// Intervals between two queries of the run state.
const (
	// heartbeatTime is the interval without other reasons. Each query costs the runner about 30 context switches,
	// most of them by Go until it is idle again. A waiting runner may use one per second.
	heartbeatTime = 45 * time.Second
	// restTime is the minimum interval during a flood of events.
	restTime = 200 * time.Millisecond
)

// runState tracks the state of the machine. It queries QEMU at the beginning of each connection, after every
// event that may have changed the state, and regularly. All commands that stop or start the guest are sent here.
type runState struct {
	*line
	keep    *keeper
	disks   *disks
	faults  *faults
	helpers *helpers
	pid     int
	version string

	held      Refusal // why the guest must not be paused or resumed; "" if it may be
	on        bool    // the guest was started
	prelaunch bool    // the guest may not have been started, because the earlier runner was killed
	last      string
	asked     bool
	again     bool
	due       time.Time // when to query again
	rest      time.Time // earliest time of the next query
	// order counts the commands that stop or start the guest. The reply to a query before the last of them is
	// outdated.
	order int
}

// lookSoon schedules a query of the state.
func (r *runState) lookSoon(now time.Time) {
	r.again = r.asked
	if due := laterOf(now, r.rest); !r.asked && (r.due.IsZero() || due.Before(r.due)) {
		r.due = due
	}
}

func (r *runState) nextStep(now time.Time) (wake time.Time) {
	if !r.on || !r.connected || r.asked {
		return time.Time{}
	}
	if now.Before(r.due) {
		return r.due
	}
	r.asked = true
	order := r.order
	r.sendCommand(qmp.Command{Execute: "query-status"}, now, func(a answer, now time.Time) {
		var state struct{ Status string }
		r.asked, r.rest, r.due = false, now.Add(restTime), now.Add(heartbeatTime)
		if a.decodeInto(&state) == nil {
			r.noteState(state.Status, order == r.order, now)
		}
		if r.again {
			r.lookSoon(now)
		}
	})
	return time.Time{}
}

// noteState processes the machine's state. fresh reports that no later command has changed it.
func (r *runState) noteState(state string, fresh bool, now time.Time) {
	before := r.last
	r.last = state
	r.publishUpdates(status.RunState(state), status.Process{PID: r.pid, Version: r.version}, acceleratorFaults(state))
	if state == "running" && fresh {
		r.keep.setPaused(false) // even if a QMP command has resumed it
	}
	if state == "internal-error" && before != state {
		r.addLog(slog.LevelError, acceleratorFailed)
	}
	r.prelaunch = r.prelaunch && state == "prelaunch"
	switch {
	case !fresh:
	case state == "io-error":
		r.disks.queryFailed(now)
		return
	case r.prelaunch && !r.keep.progress.Paused:
		// The runner that started QEMU was killed just before the guest ran.
		r.continueGuest(now, func(answer, time.Time) {})
	}
	r.disks.endRecovery()
	r.faults.reportFaults(now)
}

// continueGuest lets the guest run, unless the machine is held.
func (r *runState) continueGuest(now time.Time, then func(answer, time.Time)) {
	if r.held != "" {
		then(answer{err: r.held}, now)
		return
	}
	r.letRun(now, then)
}

// letRun lets the guest run. Only this function sends the command.
func (r *runState) letRun(now time.Time, then func(answer, time.Time)) {
	r.order++
	r.sendCommand(qmp.Command{Execute: "cont"}, now, then)
}

// pauseFor pauses the guest for a user.
func (r *runState) pauseFor(to Request, now time.Time) {
	if r.held != "" {
		r.addAction(Answer{To: to, Err: r.held})
		return
	}
	r.keep.setPaused(true)
	r.order++
	r.sendCommand(qmp.Command{Execute: "stop"}, now, r.answerTo(to))
}

// resumeFor resumes the guest for a user, regardless of what it was waiting for. During the start of a machine it
// only clears the pause, and Release lets the guest run when the machine is ready.
func (r *runState) resumeFor(to Request, now time.Time) {
	if r.held != "" {
		r.addAction(Answer{To: to, Err: r.held})
		return
	}
	r.keep.setPaused(false)
	if !r.on {
		r.addAction(Answer{To: to})
		return
	}
	r.continueGuest(now, r.answerTo(to))
}

// resetFor presses the reset button for a user.
func (r *runState) resetFor(to Request, now time.Time) {
	if r.held != "" {
		r.addAction(Answer{To: to, Err: r.held})
		return
	}
	if why := r.helpers.tpm.noReset(); why != "" {
		r.addAction(Answer{To: to, Err: Refusal(why)})
		return
	}
	r.sendCommand(qmp.Command{Execute: "system_reset"}, now, r.answerTo(to))
}

// answerTo returns a function that passes the answer on to a request.
func (l *line) answerTo(to Request) func(answer, time.Time) {
	return func(a answer, _ time.Time) { l.addAction(Answer{to, a.reply, a.err}) }
}

// A Refusal is an error that explains why something is impossible at the moment.
type Refusal string

func (r Refusal) Error() string { return string(r) }

const acceleratorFailed = "KVM cannot run this guest any further (KVM internal error); " +
	"reset the VM, or set accelerator: tcg, which runs what KVM cannot run here"

// acceleratorFaults returns the status update for an accelerator that has failed, or works.
func acceleratorFaults(state string) status.Faults {
	if state == "internal-error" {
		return status.Faults{Reason: vmstatus.ReasonMachineFailed, Messages: []string{acceleratorFailed}}
	}
	return status.Faults{Reason: vmstatus.ReasonMachineFailed}
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
