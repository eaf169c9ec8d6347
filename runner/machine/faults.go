package machine

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"time"

	"vmop/internal/printable"
	"vmop/internal/ratelimit"
	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// faults records problems of a guest and its disks: a panic, a watchdog, an inconsistent image. Events only add
// to the log. The status receives the problems after the next query of the run state, so that a flood of events
// is as cheap as a few.
type faults struct {
	*line
	run     *runState
	disks   *disks
	all     faultLog
	waiting []string // why a stopped VM waits
	limit   ratelimit.Limit
	wake    time.Time // when an entry expires
}

// observeEvent processes an event, and schedules a query of the run state if the event matters.
func (f *faults) observeEvent(e qmp.Event, now time.Time) {
	switch e.Name {
	case "STOP", "RESUME":
	case "RESET":
		f.all.forgetKind(vmstatus.ReasonGuestPanicked)
	default:
		found, ok := f.readEvent(e)
		if !ok {
			return
		}
		f.all.addFault(found, now)
	}
	f.run.lookSoon(now)
}

func (f *faults) nextStep(now time.Time) (wake time.Time) {
	if !f.wake.IsZero() && !now.Before(f.wake) {
		f.wake = time.Time{}
		f.run.lookSoon(now)
	}
	return f.wake
}

// reportFaults publishes all known problems in the status, and logs the new entries.
func (f *faults) reportFaults(now time.Time) {
	f.wake = f.all.expireFaults(now)
	var updates []status.Update
	for _, reason := range [...]vmstatus.Reason{
		vmstatus.ReasonGuestPanicked, vmstatus.ReasonWatchdogExpired, vmstatus.ReasonMemoryFailure,
		vmstatus.ReasonImageCorrupted,
	} {
		updates = append(updates, status.Faults{Reason: reason, Messages: f.all.faultMessages(reason)})
	}
	failures := append(f.waiting[:len(f.waiting):len(f.waiting)], f.all.faultMessages(vmstatus.ReasonIOError)...)
	f.publishUpdates(append(updates, status.Faults{Reason: vmstatus.ReasonIOError, Messages: failures})...)
	for _, one := range f.all.unloggedFaults() {
		if withheld, ok := f.limit.Allow(now); ok {
			f.addLog(slog.LevelWarn, one.String(), "reason", string(one.reason), "withheld", withheld)
		}
	}
}

// faultData is the data of events about problems; see the QEMU QMP Reference Manual.
type faultData struct {
	Action    string
	Device    string // of -drive; empty for other drives
	Path      string `json:"qom-path"` // of the device; only in newer versions
	Node      string `json:"node-name"`
	Operation string
	Full      bool `json:"nospace"`
	Reason    string
	Msg       string
	Fatal     bool
	Recipient string
}

// readEvent converts an event to an entry of the log.
func (f *faults) readEvent(e qmp.Event) (fault, bool) {
	var d faultData
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) != nil {
		return fault{}, false
	}
	switch e.Name {
	case "GUEST_PANICKED":
		return fault{
			reason: vmstatus.ReasonGuestPanicked, text: "the guest has panicked" + consequenceOf(d.Action),
			lasting: true,
		}, true
	case "GUEST_CRASHLOADED":
		const text = "the guest has panicked and is saving its memory to a crash dump"
		return fault{reason: vmstatus.ReasonGuestPanicked, text: text, lasting: true}, true
	case "WATCHDOG":
		return fault{reason: vmstatus.ReasonWatchdogExpired, text: "the guest's watchdog has expired" +
			consequenceOf(d.Action)}, true
	case "MEMORY_FAILURE":
		text := "the host's memory is faulty: " + d.Action
		return fault{reason: vmstatus.ReasonMemoryFailure, subject: d.Recipient, text: text, lasting: true}, true
	case "BLOCK_IMAGE_CORRUPTED":
		text := "the image is corrupted: " + printable.Line(d.Msg)
		if d.Fatal {
			text += "; QEMU no longer uses it"
		}
		drive := driveOf(f.disks.plan, cmp.Or(d.Path, d.Device), d.Node)
		return fault{reason: vmstatus.ReasonImageCorrupted, subject: drive.String(), text: text, lasting: true}, true
	case "BLOCK_IO_ERROR":
		cause := d.Operation + " failed: " + printable.Line(d.Reason)
		if d.Action == "stop" { // STOP follows, and the run state shows it
			f.disks.rememberCause(d.Node, cause)
			return fault{}, false
		}
		drive := driveOf(f.disks.plan, cmp.Or(d.Path, d.Device), d.Node)
		return fault{reason: vmstatus.ReasonIOError, subject: drive.String(), text: cause + consequenceOf(d.Action)},
			true
	}
	return fault{}, false
}

// consequenceOf describes QEMU's reaction to a problem.
func consequenceOf(action string) string {
	switch action {
	case "":
		return ""
	case "report":
		return "; the guest got the error"
	case "ignore", "none", "run":
		return "; it keeps running"
	case "pause":
		return "; it is paused until it is resumed or reset"
	}
	return "; QEMU does: " + action
}
