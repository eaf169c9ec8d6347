package machine

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"time"

	"vmop/printable"
	"vmop/qmp"
	"vmop/runner/ratelimit"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// faults records what goes wrong with a guest and its disks: a panic, a watchdog,
// an image that is inconsistent. Events only add to the log of faults; the status
// has them when the run state was asked for, so that a flood of events costs no
// more than a few.
type faults struct {
	*line
	run     *runState
	disks   *disks
	all     faultLog
	waiting []string // what a stopped VM waits for
	limit   ratelimit.Limit
	wake    time.Time // when a fault is forgotten
}

// observe takes in an event, and reports whether the machine is to be looked at.
func (f *faults) observe(e qmp.Event, now time.Time) {
	switch e.Name {
	case "STOP", "RESUME":
	case "RESET":
		f.all.forget(vmstatus.ReasonGuestPanicked)
	default:
		found, ok := f.read(e)
		if !ok {
			return
		}
		f.all.add(found, now)
	}
	f.run.soon(now)
}

func (f *faults) next(now time.Time) (wake time.Time) {
	if !f.wake.IsZero() && !now.Before(f.wake) {
		f.wake = time.Time{}
		f.run.soon(now)
	}
	return f.wake
}

// report puts all that is known into the status, and what is new into the log.
func (f *faults) report(now time.Time) {
	f.wake = f.all.expire(now)
	var updates []status.Update
	for _, reason := range [...]vmstatus.Reason{
		vmstatus.ReasonGuestPanicked, vmstatus.ReasonWatchdogExpired, vmstatus.ReasonMemoryFailure,
		vmstatus.ReasonImageCorrupted,
	} {
		updates = append(updates, status.Faults{Reason: reason, Messages: f.all.messages(reason)})
	}
	failures := append(f.waiting[:len(f.waiting):len(f.waiting)], f.all.messages(vmstatus.ReasonIOError)...)
	f.publish(append(updates, status.Faults{Reason: vmstatus.ReasonIOError, Messages: failures})...)
	for _, one := range f.all.unlogged() {
		if withheld, ok := f.limit.Allow(now); ok {
			f.log(slog.LevelWarn, one.String(), "reason", string(one.reason), "withheld", withheld)
		}
	}
}

// faultData is what the events about faults say; see the QEMU QMP Reference
// Manual.
type faultData struct {
	Action    string
	Device    string // of -drive, empty for others
	Path      string `json:"qom-path"` // of the device; newer versions have it
	Node      string `json:"node-name"`
	Operation string
	Full      bool `json:"nospace"`
	Reason    string
	Msg       string
	Fatal     bool
	Recipient string
}

// read turns an event into a fault.
func (f *faults) read(e qmp.Event) (fault, bool) {
	var d faultData
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) != nil {
		return fault{}, false
	}
	switch e.Name {
	case "GUEST_PANICKED":
		return fault{
			reason: vmstatus.ReasonGuestPanicked, text: "the guest has panicked" + consequence(d.Action),
			lasting: true,
		}, true
	case "GUEST_CRASHLOADED":
		const text = "the guest has panicked and is saving its memory to a crash dump"
		return fault{reason: vmstatus.ReasonGuestPanicked, text: text, lasting: true}, true
	case "WATCHDOG":
		return fault{reason: vmstatus.ReasonWatchdogExpired, text: "the guest's watchdog has expired" +
			consequence(d.Action)}, true
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
		if d.Action == "stop" { // STOP follows, and the run state says so
			f.disks.remember(d.Node, cause)
			return fault{}, false
		}
		drive := driveOf(f.disks.plan, cmp.Or(d.Path, d.Device), d.Node)
		return fault{reason: vmstatus.ReasonIOError, subject: drive.String(), text: cause + consequence(d.Action)}, true
	}
	return fault{}, false
}

// consequence says what QEMU does about a fault.
func consequence(action string) string {
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
