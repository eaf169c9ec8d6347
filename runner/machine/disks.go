package machine

import (
	"log/slog"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// disks resumes a VM that QEMU has stopped because of a disk error. It asks QEMU for the failed disks and the
// host for their free space; recovery decides.
type disks struct {
	*line
	keep     *keeper
	run      *runState
	faults   *faults
	plan     *plan.Plan
	recovery recovery
	causes   map[string]string // of errors, by the name of QEMU's block node
	busy     bool              // answers are missing
	list     []failedDisk      // failed disks that are being measured
	wake     time.Time         // when to query the run state again
}

// maxCauses is the maximum number of nodes with remembered errors.
const maxCauses = 64

func (d *disks) rememberCause(node, cause string) {
	if len(d.causes) < maxCauses || d.causes[node] != "" {
		d.causes[node] = cause
	}
}

// endRecovery ends a recovery, because the machine is in another state now.
func (d *disks) endRecovery() {
	d.recovery.noteRunning()
	d.wake, d.faults.waiting = time.Time{}, nil
}

func (d *disks) nextStep(now time.Time) (wake time.Time) {
	if !d.wake.IsZero() && !now.Before(d.wake) {
		d.wake = time.Time{}
		d.run.lookSoon(now)
	}
	return d.wake
}

// queryFailed asks QEMU for the disks that stopped the machine.
func (d *disks) queryFailed(now time.Time) {
	if d.busy {
		return
	}
	d.busy = true
	d.sendCommand(qmp.Command{Execute: "query-block"}, now, func(a answer, now time.Time) {
		list, err := d.readFailed(a)
		if err != nil {
			d.addLog(slog.LevelWarn, "the VM waits for a disk, but which one is unknown", "err", err)
		}
		d.list = list
		var files []string
		for _, f := range list {
			files = append(files, f.drive.file)
		}
		if len(files) == 0 {
			d.resumeOrWait(nil, now)
			return
		}
		d.addAction(Measure{files})
	})
}

// readFailed decodes QEMU's answer.
func (d *disks) readFailed(a answer) (list []failedDisk, err error) {
	var blocks []struct {
		Device   string
		Qdev     string
		IOStatus string `json:"io-status"`
		Inserted struct {
			Node string `json:"node-name"`
			File string
		}
	}
	if err := a.decodeInto(&blocks); err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.IOStatus == "" || b.IOStatus == "ok" {
			continue
		}
		f := failedDisk{drive: driveOf(d.plan, b.Qdev, b.Inserted.Node), full: b.IOStatus == "nospace"}
		if f.drive.file == "" {
			f.drive.file = b.Inserted.File
		}
		if f.cause = d.causes[b.Inserted.Node]; f.cause == "" {
			f.cause = "an error of the host (" + b.IOStatus + ")"
		}
		list = append(list, f)
	}
	return list, nil
}

// resumeOrWait receives the free space of the files, and resumes the VM or waits.
func (d *disks) resumeOrWait(spaces map[string]Space, now time.Time) {
	d.busy = false
	if d.run.last != "io-error" || !d.connected {
		return
	}
	began := !d.recovery.stopped
	for i := range d.list {
		d.list[i].space = spaces[d.list[i].drive.file]
	}
	resume, wake, why := d.recovery.decideResume(d.list, now)
	text := strings.Join(why, "; ")
	if d.keep.progress.Paused {
		resume = false
		for i := range why {
			why[i] += ". A user has paused it, too: resume it"
		}
	}
	if resume {
		wake = now.Add(spacePoll) // RESUME comes first
	}
	d.wake, d.faults.waiting = wake, why
	d.faults.reportFaults(now)
	if began {
		d.addLog(slog.LevelError, "QEMU has stopped the VM because of a disk", "err", text)
	}
	if !resume {
		return
	}
	d.recovery.noteAttempt(now)
	d.addLog(slog.LevelInfo, "resuming the VM after a failure of a disk", "attempt", d.recovery.attempts, "cause", text)
	d.run.continueGuest(now, func(a answer, _ time.Time) {
		if a.err != nil {
			d.addLog(slog.LevelError, "resuming the VM after a failure of a disk", "err", a.err)
		}
	})
}
