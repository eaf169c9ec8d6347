package reconcile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/usernet"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// What is different of CD drives that are attached while the machine runs.
//
// See docs/decisions/0143-attached-cds.md.

// isCD reports whether it is a CD drive.
func (d Drive) isCD() bool { return d.Type == vmspec.DriveIDECD }

// stays reports whether a disk is wanted, be it another one, or this CD drive with this medium.
func (d *drives) stays(p plugged) bool {
	w := d.wanted(p.serial)
	return w != nil && (!p.cd || p.is(*w))
}

func (p plugged) noun() string {
	if p.cd {
		return "CD drive"
	}
	return "disk"
}

// device returns the id of the device that has the block node. That of a CD drive may be in a USB device, which has
// the name of the node.
func (p plugged) device() string {
	if p.cd {
		return cdPrefix + p.name
	}
	return p.name
}

const cdPrefix = "cd-"

// hidden reports whether a CD drive is on a USB device that may not be plugged in.
func (d *drives) hidden(p plugged) bool { return p.cd && d.rule.CDHolder != "" && !d.shown[p.name] }

// show plugs in the USB device of a CD drive, now that the drive is in it. A runner that finds one does so again.
func (d *drives) show(p plugged, j *driveJob) {
	d.send(func(answers []answer, now time.Time) {
		if err := answers[0].err; err != nil {
			d.known = false
			j.fail(fmt.Sprintf("plug in the CD drive: %v", err), now)
			return
		}
		d.shown[p.name] = true
	}, plugIn(p))
}

func plugIn(p plugged) qmp.Command {
	return commandOf("qom-set", map[string]any{"path": peripheral + p.name, "property": "attached", "value": true})
}

// release asks the guest to release a disk, or to open the tray of a CD drive, before that goes.
func (d *drives) release(p plugged, j *driveJob) {
	if !p.cd {
		d.detach(p, j)
		return
	}
	d.send(func(answers []answer, now time.Time) {
		var devices []block
		err := cmp.Or(answers[0].err, answers[1].decode(&devices))
		b, findErr := find(devices, p.device(), err)
		switch {
		case findErr != nil:
			d.known = false
			j.fail(fmt.Sprintf("open the tray: %v", findErr), now)
		case b.Locked && !b.TrayOpen: // it was asked to open it
			d.known, j.message = false, "waiting for the guest to open the tray, which it has locked"
			j.pause = min(max(2*j.pause, firstUnplug), lastUnplug)
			j.until(now.Add(j.pause), now)
		default:
			d.detach(p, j)
		}
	}, commandOf("blockdev-open-tray", map[string]any{"id": p.device()}), commandOf("query-block", nil))
}

// IsCD reports whether the id of a device is that of a CD drive that was attached while the machine runs.
func IsCD(id string) bool {
	p, attached := parsePlugged(id)
	return attached && p.cd
}

// scsiAddress is the property of a SCSI device that is its place on the bus.
const scsiAddress = "scsi-id"

// AddressOfCD returns the command that asks for the address of a CD drive, by the id of its device, and what QEMU's
// answer has of it: Slot.CD, "" if there is none. Of USB only the monitor for people says which port QEMU has found.
func AddressOfCD(rule plan.Disks, id string) (question qmp.Command, read func(answer json.RawMessage) string) {
	if rule.CDHolder == "" {
		return commandOf("qom-get", map[string]any{"path": peripheral + id, "property": scsiAddress}),
			func(answer json.RawMessage) string { return string(answer) }
	}
	id = strings.TrimPrefix(id, cdPrefix)
	return commandOf("human-monitor-command", map[string]any{"command-line": "info usb"}),
		func(answer json.RawMessage) string {
			said, _ := usernet.Said(answer)
			for line := range strings.Lines(said) {
				before, of, _ := strings.Cut(line, ", ID: ")
				_, port, _ := strings.Cut(before, "Port ")
				if port, _, has := strings.Cut(port, ","); has && strings.TrimSpace(of) == id {
					return port
				}
			}
			return ""
		}
}
