package machine

import (
	"encoding/json"
	"log/slog"
	"syscall"
	"time"

	"vmop/process"
	"vmop/qmp"
	"vmop/vmstatus"
)

const (
	// nudgeTime is what a QEMU has that has announced its end.
	nudgeTime = 5 * time.Second
	// nudgeAnswerTime is what it has to answer that it stays.
	nudgeAnswerTime = 2 * time.Second
	// closeTime is how long events of a QEMU that has ended are awaited: its end
	// closes the monitor, but a monitor that is kept open by another process must
	// not keep the runner.
	closeTime = 2 * time.Second
)

// ending follows QEMU's end, from the announcement on.
//
// It sees to it that QEMU ends when it has said that it will. QEMU 7.2 may wait
// for ever for a virtual CPU that has missed its stop (seen when a signal ended it
// just after cont); another SIGTERM wakes it up, and is harmless to one that is
// only slow. A QEMU that still answers is kept by its type
// (-action shutdown=pause).
type ending struct {
	*line
	keep    *keeper
	helpers *helpers
	stop    *stop

	last    *Shutdown
	before  bool      // an earlier runner was to stop the VM, and QEMU has announced its end to it
	nudge   time.Time // when QEMU is asked whether it stays; zero: not
	asked   *exchange
	giveUp  time.Time // when its answer is late
	exited  bool
	exit    process.Exit
	since   time.Time
	isEnded bool // End was said
}

func (e *ending) observe(event qmp.Event, now time.Time) {
	if event.Name != "SHUTDOWN" {
		return
	}
	var s Shutdown
	if err := json.Unmarshal(event.Data, &s); err == nil {
		e.last = &s
		e.keep.setShutdown(s)
	}
	e.announced(now)
}

// begin takes in what an earlier runner has heard.
func (e *ending) begin(now time.Time) {
	if e.last = e.keep.progress.Shutdown; e.last != nil {
		e.before = e.keep.progress.Stop != nil
		e.announced(now)
	}
}

// announced has QEMU end in time, as it has said.
func (e *ending) announced(now time.Time) {
	if e.nudge.IsZero() && e.asked == nil {
		e.nudge = now.Add(nudgeTime)
	}
}

// qemuExited takes in the end of QEMU's process.
func (e *ending) qemuExited(exit process.Exit, now time.Time) {
	e.exited, e.exit, e.since = true, exit, now
}

func (e *ending) next(now time.Time) (wake time.Time) {
	switch {
	case e.exited && (!e.connected || !now.Before(e.since.Add(closeTime))):
		e.finish()
		return time.Time{}
	case e.exited:
		return e.since.Add(closeTime)
	case e.asked != nil && now.Before(e.giveUp):
		return e.giveUp
	case e.asked != nil:
		e.line.giveUp(e.asked)
		e.wakeUp(now)
	case e.nudge.IsZero():
		return time.Time{}
	case !now.Before(e.nudge):
		e.query(now)
		return e.giveUp
	}
	return e.nudge
}

// query asks whether QEMU stays.
func (e *ending) query(now time.Time) {
	e.nudge, e.giveUp = time.Time{}, now.Add(nudgeAnswerTime)
	e.asked = e.send(qmp.Command{Execute: "query-status"}, now, func(a answer, now time.Time) {
		e.asked = nil
		if a.err != nil {
			e.wakeUp(now)
		}
	})
}

func (e *ending) wakeUp(now time.Time) {
	e.asked, e.nudge = nil, now.Add(nudgeTime-nudgeAnswerTime)
	if e.exited {
		return
	}
	e.log(slog.LevelWarn, "QEMU has announced its end but is still running; sending SIGTERM", "process", "qemu")
	e.do(Signal{syscall.SIGTERM})
}

// finish says how the machine has ended.
func (e *ending) finish() {
	if e.isEnded {
		return
	}
	e.isEnded = true
	o := outcome(e.last, e.exit, e.stop.began || e.before, e.stop.requested, e.stop.forced)
	if o.Cause == vmstatus.CauseReset && e.helpers.tpm.lost {
		o.Cause = vmstatus.CauseTPM
	}
	e.do(End{o})
}
