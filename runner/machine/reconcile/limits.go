package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// limits keeps the limits of disks at the wanted values, both of disks that have a rule and of attached disks. QEMU
// stores the limits, so the limits of a found machine are queried.
//
// See docs/decisions/0192-disk-tuning.md.
type limits struct {
	dialogue
	rules  []plan.Limits
	found  bool // the machine was found running
	blocks *blockDevices
	drives *drives

	disks  map[string]*limitedDisk // by device
	lacked map[string]string       // why wanted limits have no effect, by path
}

// limitedDisk is a disk with its limits in QEMU.
type limitedDisk struct {
	pace
	path    string // of the wanted limits in the configuration
	want    vmspec.DiskLimits
	have    vmspec.DiskLimits
	known   bool   // have is up to date
	name    string // QEMU's name of the device in query-block
	asking  bool
	problem string
}

func newLimits(start Start, blocks *blockDevices) *limits {
	return &limits{found: start.Running, blocks: blocks, disks: map[string]*limitedDisk{}}
}

func (l *limits) nextStep(want *Desired, now time.Time) {
	l.takeWishes(want)
	if l.isBusy() {
		return
	}
	var due []*limitedDisk
	for _, device := range slices.Sorted(maps.Keys(l.disks)) {
		switch d := l.disks[device]; {
		case d.asking || !d.isReady(now):
		case d.known && d.have == d.want:
			d.problem = ""
			d.forgetFailures()
		case !d.known || d.name == "":
			l.queryLimits(device, d)
		default:
			due = append(due, d)
		}
	}
	if len(due) > 0 {
		l.setLimits(due)
	}
}

// takeWishes records the wanted limits of each disk. A disk that is no longer attached is forgotten.
func (l *limits) takeWishes(want *Desired) {
	wished := map[string]bool{}
	wish := func(device, path string, limits vmspec.DiskLimits) {
		wished[device] = true
		d := l.disks[device]
		if d == nil {
			d = &limitedDisk{known: !l.found} // a new disk has no limits
			l.disks[device] = d
		}
		if d.path = path; d.want != limits {
			d.want, d.problem, d.pace = limits, "", pace{}
		}
	}
	ruled := map[int]bool{}
	for _, r := range l.rules {
		ruled[r.Drive], wished[r.Device] = true, true // without limits, it stays as it is
		if limits, given := want.Limits[r.Drive]; given {
			wish(r.Device, limitsPath(r.Drive), limits)
		}
	}
	for _, p := range l.drives.have {
		if w := l.drives.wantedDrive(p.serial); p.present && !p.cd && w != nil && p.isDrive(*w) {
			wish(p.deviceID(), limitsPath(w.Index), w.WantedLimits())
		}
	}
	maps.DeleteFunc(l.disks, func(device string, d *limitedDisk) bool { return !wished[device] && !d.asking })
	l.lacked = map[string]string{}
	for drive, limits := range want.Limits {
		if limits != (vmspec.DiskLimits{}) && !ruled[drive] {
			l.lacked[limitsPath(drive)] = "the VM type has no rule hotplug.limits for this disk; update the VM's type"
		}
	}
}

func limitsPath(drive int) string { return fmt.Sprintf("vm.drives[%d].limits", drive) }

// queryLimits asks for the limits of a disk, and for QEMU's name of it.
func (l *limits) queryLimits(device string, d *limitedDisk) {
	d.asking = true
	l.blocks.queryDevice(device, func(b block, err error, now time.Time) {
		d.asking = false
		switch {
		case err != nil:
			d.noteFailure(err.Error(), now)
		case b.Inserted == nil:
			d.noteFailure("the machine's device "+device+" has no disk", now)
		default:
			d.name, d.have, d.known = b.QDev, b.Inserted.diskLimits(), true
		}
	})
}

// setLimits sets the limits of some disks.
func (l *limits) setLimits(due []*limitedDisk) {
	commands, set := make([]qmp.Command, len(due)), make([]vmspec.DiskLimits, len(due))
	for i, d := range due {
		commands[i], set[i] = throttleCommand(d.name, d.want), d.want
	}
	l.sendBatch(func(answers []answer, now time.Time) {
		for i, d := range due {
			if err := answers[i].err; err != nil {
				d.known = false // an answer may be lost
				d.noteFailure("limit the disk's speed: "+strings.ReplaceAll(err.Error(), "\n", "; "), now)
				continue
			}
			d.have, d.problem = set[i], ""
			d.forgetFailures()
		}
	}, commands...)
}

// throttleCommand returns the command that sets all limits of a device.
func throttleCommand(device string, l vmspec.DiskLimits) qmp.Command {
	return commandOf("block_set_io_throttle", map[string]any{
		"id": device, "iops": l.IOPS, "iops_rd": l.IOPSRead, "iops_wr": l.IOPSWrite,
		"bps": int64(l.Bytes), "bps_rd": int64(l.BytesRead), "bps_wr": int64(l.BytesWrite),
	})
}

func (d *limitedDisk) noteFailure(message string, now time.Time) {
	d.problem = message
	d.delayNext(now)
}

// wakeTime returns when the first disk is due again.
func (l *limits) wakeTime() (wake time.Time) {
	for _, d := range l.disks {
		if !d.at.IsZero() && (wake.IsZero() || d.at.Before(wake)) {
			wake = d.at
		}
	}
	return wake
}

func (l *limits) observeEvent(event, time.Time) {}
func (l *limits) doubtState()                   {}

func (l *limits) reportFacts(f *Facts) {
	for _, device := range slices.Sorted(maps.Keys(l.disks)) {
		f.addProblem(l.disks[device].path, l.disks[device].problem)
	}
	for _, path := range slices.Sorted(maps.Keys(l.lacked)) {
		f.addProblem(path, l.lacked[path])
	}
}
