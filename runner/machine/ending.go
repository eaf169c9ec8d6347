package machine

import (
	"encoding/json"
	"log/slog"
	"syscall"
	"time"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/vmstatus"
)

const (
	// nudgeTime is how long QEMU may take to exit after it has announced its end.
	nudgeTime = 5 * time.Second
	// nudgeAnswerTime is how long QEMU may take to answer that it stays.
	nudgeAnswerTime = 2 * time.Second
	// closeTime is how long the runner waits for events of an ended QEMU. Its end closes the monitor, but a
	// monitor that another process keeps open must not block the runner.
	closeTime = 2 * time.Second
)

// ending follows QEMU's end, from its announcement.
//
// It ensures that QEMU really ends after its announcement. QEMU 7.2 may wait forever for a virtual CPU that has
// missed its stop, which was seen when a signal ended QEMU just after cont. Another SIGTERM wakes it up, and is
// harmless to a QEMU that is only slow. A QEMU that still answers was configured to stay by its VM type (-action
// shutdown=pause).
type ending struct {
	*line
	keep    *keeper
	helpers *helpers
	stop    *stop

	last    *Shutdown
	before  bool      // an earlier runner was stopping the VM
	nudge   time.Time // when to ask QEMU whether it stays; zero: never
	asked   *exchange
	giveUp  time.Time // when its answer is late
	exited  bool
	exit    childprocess.Exit
	since   time.Time
	isEnded bool // End was returned
}

func (e *ending) observeEvent(event qmp.Event, now time.Time) {
	if event.Name != "SHUTDOWN" {
		return
	}
	var s Shutdown
	if err := json.Unmarshal(event.Data, &s); err == nil {
		e.last = &s
		e.keep.setShutdown(s)
	}
	e.announceEnd(now)
}

// beginFrom starts with what an earlier runner has recorded.
func (e *ending) beginFrom(now time.Time) {
	e.before = e.keep.progress.Stop != nil
	if e.last = e.keep.progress.Shutdown; e.last != nil {
		e.announceEnd(now)
	}
}

// announceEnd schedules the check that QEMU ends as announced.
func (e *ending) announceEnd(now time.Time) {
	if e.nudge.IsZero() && e.asked == nil {
		e.nudge = now.Add(nudgeTime)
	}
}

// qemuExited processes the end of QEMU's process.
func (e *ending) qemuExited(exit childprocess.Exit, now time.Time) {
	e.exited, e.exit, e.since = true, exit, now
}

func (e *ending) nextStep(now time.Time) (wake time.Time) {
	switch {
	case e.exited && (!e.connected || !now.Before(e.since.Add(closeTime))):
		e.finishEnding()
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
		e.queryStay(now)
		return e.giveUp
	}
	return e.nudge
}

// queryStay asks whether QEMU stays.
func (e *ending) queryStay(now time.Time) {
	e.nudge, e.giveUp = time.Time{}, now.Add(nudgeAnswerTime)
	e.asked = e.sendCommand(qmp.Command{Execute: "query-status"}, now, func(a answer, now time.Time) {
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
	e.addLog(slog.LevelWarn, "QEMU has announced its end but is still running; sending SIGTERM", "process", "qemu")
	e.addAction(Signal{syscall.SIGTERM})
}

// finishEnding reports how the machine has ended.
func (e *ending) finishEnding() {
	if e.isEnded {
		return
	}
	e.isEnded = true
	o := outcomeOfEnd(e.last, e.exit, e.stop.began || e.before, e.stop.requested, e.stop.forced)
	if o.Cause == vmstatus.CauseReset && e.helpers.tpm.lost {
		o.Cause = vmstatus.CauseTPM
	}
	e.addAction(End{o})
}
