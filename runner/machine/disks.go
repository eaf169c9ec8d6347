package machine

import (
	"log/slog"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// disks resumes a VM that QEMU has stopped because of a disk: which one, QEMU is
// asked, how much space it has, the host; recovery decides.
type disks struct {
	*line
	keep     *keeper
	run      *runState
	faults   *faults
	plan     *plan.Plan
	recovery recovery
	causes   map[string]string // of errors, by the name of QEMU's block node
	busy     bool              // answers are missing
	list     []failedDisk      // whose space is being measured
	wake     time.Time         // when to ask for the run state again
}

// maxCauses bounds the nodes whose errors are remembered.
const maxCauses = 64

func (d *disks) remember(node, cause string) {
	if len(d.causes) < maxCauses || d.causes[node] != "" {
		d.causes[node] = cause
	}
}

// runs ends a recovery: the machine does something else.
func (d *disks) runs() {
	d.recovery.runs()
	d.wake, d.faults.waiting = time.Time{}, nil
}

func (d *disks) next(now time.Time) (wake time.Time) {
	if !d.wake.IsZero() && !now.Before(d.wake) {
		d.wake = time.Time{}
		d.run.soon(now)
	}
	return d.wake
}

// stopped asks for the disks because of which QEMU has stopped the machine.
func (d *disks) stopped(now time.Time) {
	if d.busy {
		return
	}
	d.busy = true
	d.send(qmp.Command{Execute: "query-block"}, now, func(a answer, now time.Time) {
		list, err := d.failed(a)
		if err != nil {
			d.log(slog.LevelWarn, "the VM waits for a disk, but which one is unknown", "err", err)
		}
		d.list = list
		var files []string
		for _, f := range list {
			files = append(files, f.drive.file)
		}
		if len(files) == 0 {
			d.measured(nil, now)
			return
		}
		d.do(Measure{files})
	})
}

// failed reads QEMU's answer.
func (d *disks) failed(a answer) (list []failedDisk, err error) {
	var blocks []struct {
		Device   string
		Qdev     string
		IOStatus string `json:"io-status"`
		Inserted struct {
			Node string `json:"node-name"`
			File string
		}
	}
	if err := a.decode(&blocks); err != nil {
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

// measured takes in the space of the files, and resumes the VM or waits.
func (d *disks) measured(spaces map[string]Space, now time.Time) {
	d.busy = false
	if d.run.last != "io-error" || !d.connected {
		return
	}
	began := !d.recovery.stopped
	for i := range d.list {
		d.list[i].space = spaces[d.list[i].drive.file]
	}
	resume, wake, why := d.recovery.next(d.list, now)
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
	d.faults.report(now)
	if began {
		d.log(slog.LevelError, "QEMU has stopped the VM because of a disk", "err", text)
	}
	if !resume {
		return
	}
	d.recovery.tries(now)
	d.log(slog.LevelInfo, "resuming the VM after a failure of a disk", "attempt", d.recovery.attempts, "cause", text)
	d.run.cont(now, func(a answer, _ time.Time) {
		if a.err != nil {
			d.log(slog.LevelError, "resuming the VM after a failure of a disk", "err", a.err)
		}
	})
}
