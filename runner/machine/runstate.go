package machine

import (
	"log/slog"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// Times between two questions for the run state.
const (
	// heartbeatTime is how often QEMU is asked when there is no other reason. Each
	// costs the runner about 30 context switches, most of them Go's own until it is
	// at rest again, and a runner that waits may have one a second.
	heartbeatTime = 45 * time.Second
	// restTime is the least, when events do not stop.
	restTime = 200 * time.Millisecond
)

// runState follows what the machine does: QEMU is asked at the beginning of each
// connection, after every event that may have changed it, and now and then. What
// stops the guest and lets it run is said here and nowhere else.
type runState struct {
	*line
	keep    *keeper
	disks   *disks
	faults  *faults
	helpers *helpers
	pid     int
	version string

	held      Refusal // why the guest is neither paused nor resumed; "" if it may be
	on        bool    // the guest was let run
	prelaunch bool    // it may never have: the earlier runner was killed
	last      string
	asked     bool
	again     bool
	due       time.Time // of the next question
	rest      time.Time // not before this
	// order counts the commands that stop the guest or let it run: a reply to a
	// question that was asked before the last of them says nothing.
	order int
}

// soon has the machine looked at.
func (r *runState) soon(now time.Time) {
	r.again = r.asked
	if due := later(now, r.rest); !r.asked && (r.due.IsZero() || due.Before(r.due)) {
		r.due = due
	}
}

func (r *runState) next(now time.Time) (wake time.Time) {
	if !r.on || !r.connected || r.asked {
		return time.Time{}
	}
	if now.Before(r.due) {
		return r.due
	}
	r.asked = true
	order := r.order
	r.send(qmp.Command{Execute: "query-status"}, now, func(a answer, now time.Time) {
		var state struct{ Status string }
		r.asked, r.rest, r.due = false, now.Add(restTime), now.Add(heartbeatTime)
		if a.decode(&state) == nil {
			r.is(state.Status, order == r.order, now)
		}
		if r.again {
			r.soon(now)
		}
	})
	return time.Time{}
}

// is takes in what the machine does. fresh says that nothing was said since that
// changes it.
func (r *runState) is(state string, fresh bool, now time.Time) {
	before := r.last
	r.last = state
	r.publish(status.RunState(state), status.Process{PID: r.pid, Version: r.version}, accelerator(state))
	if state == "running" && fresh {
		r.keep.setPaused(false) // also if it was resumed by a command of QMP
	}
	if state == "internal-error" && before != state {
		r.log(slog.LevelError, acceleratorFailed)
	}
	r.prelaunch = r.prelaunch && state == "prelaunch"
	switch {
	case !fresh:
	case state == "io-error":
		r.disks.stopped(now)
		return
	case r.prelaunch && !r.keep.progress.Paused:
		// The runner that started QEMU was killed a moment before the guest ran.
		r.cont(now, func(answer, time.Time) {})
	}
	r.disks.runs()
	r.faults.report(now)
}

// cont lets the guest run: no other place sends this command, but Continue.
func (r *runState) cont(now time.Time, then func(answer, time.Time)) {
	if r.held != "" {
		then(answer{err: r.held}, now)
		return
	}
	r.order++
	r.send(qmp.Command{Execute: "cont"}, now, then)
}

// pause stops the guest for a user.
func (r *runState) pause(to Request, now time.Time) {
	if r.held != "" {
		r.do(Answer{To: to, Err: r.held})
		return
	}
	r.keep.setPaused(true)
	r.order++
	r.send(qmp.Command{Execute: "stop"}, now, r.answerTo(to))
}

// resume lets it run for a user, whatever it has waited for. A machine that is still being
// started isn't let run before it is as it is to be: Release does that.
func (r *runState) resume(to Request, now time.Time) {
	if r.held != "" {
		r.do(Answer{To: to, Err: r.held})
		return
	}
	r.keep.setPaused(false)
	if !r.on {
		r.do(Answer{To: to})
		return
	}
	r.cont(now, r.answerTo(to))
}

// reset presses the reset button for a user.
func (r *runState) reset(to Request, now time.Time) {
	if r.held != "" {
		r.do(Answer{To: to, Err: r.held})
		return
	}
	if why := r.helpers.tpm.noReset(); why != "" {
		r.do(Answer{To: to, Err: Refusal(why)})
		return
	}
	r.send(qmp.Command{Execute: "system_reset"}, now, r.answerTo(to))
}

// answerTo gives the answer to who has asked.
func (l *line) answerTo(to Request) func(answer, time.Time) {
	return func(a answer, _ time.Time) { l.do(Answer{to, a.reply, a.err}) }
}

// A Refusal is an error that says why something cannot be done now.
type Refusal string

func (r Refusal) Error() string { return string(r) }

const acceleratorFailed = "KVM cannot run this guest any further (KVM internal error); " +
	"reset the VM, or set accelerator: tcg, which runs what KVM cannot run here"

// accelerator is the fault of an accelerator that has given up, or its end.
func accelerator(state string) status.Faults {
	if state == "internal-error" {
		return status.Faults{Reason: vmstatus.ReasonMachineFailed, Messages: []string{acceleratorFailed}}
	}
	return status.Faults{Reason: vmstatus.ReasonMachineFailed}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
