package reconcile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/machine/usernet"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// This file contains what differs for CD drives that are attached while the machine runs.
//
// See docs/decisions/0143-attached-cds.md.

// isCD reports whether it is a CD drive.
func (d Drive) isCD() bool { return d.Type == vmspec.DriveIDECD }

// isStaying reports whether an attached disk or drive is still wanted. For a disk, its serial number is sufficient.
// For a CD drive, the medium must be the same as well.
func (d *drives) isStaying(p plugged) bool {
	w := d.wantedDrive(p.serial)
	return w != nil && (!p.cd || p.isDrive(*w))
}

func (p plugged) nounForPeople() string {
	if p.cd {
		return "CD drive"
	}
	return "disk"
}

// deviceID returns the ID of the device that uses the block node. A CD drive may be inside a USB device, which has
// the node's name.
func (p plugged) deviceID() string {
	if p.cd {
		return cdPrefix + p.name
	}
	return p.name
}

const cdPrefix = "cd-"

// isHidden reports whether a CD drive is on a USB device that may not be plugged in yet.
func (d *drives) isHidden(p plugged) bool { return p.cd && d.rule.CDHolder != "" && !d.shown[p.name] }

// showDrive plugs in the USB device of a CD drive after the drive has been added to it. A runner that adopts the
// machine repeats this.
func (d *drives) showDrive(p plugged, j *driveJob) {
	d.sendBatch(func(answers []answer, now time.Time) {
		if err := answers[0].err; err != nil {
			d.known = false
			j.noteFailure(fmt.Sprintf("plug in the CD drive: %v", err), now)
			return
		}
		d.shown[p.name] = true
	}, plugIn(p))
}

func plugIn(p plugged) qmp.Command {
	return commandOf("qom-set", map[string]any{"path": peripheral + p.name, "property": "attached", "value": true})
}

// releaseDrive asks the guest to release a disk. A CD drive is detached when its tray is open, so the guest is asked
// to open it first.
func (d *drives) releaseDrive(p plugged, j *driveJob) {
	if !p.cd {
		d.detachDrive(p, j)
		return
	}
	d.sendBatch(func(answers []answer, now time.Time) {
		var devices []block
		err := cmp.Or(answers[0].err, answers[1].decodeInto(&devices))
		b, findErr := findBlock(devices, p.deviceID(), err)
		switch {
		case findErr != nil:
			d.known = false
			j.noteFailure(fmt.Sprintf("open the tray: %v", findErr), now)
		case b.Locked && !b.TrayOpen: // the guest was asked to open it
			d.known, j.message = false, "waiting for the guest to open the tray, which it has locked"
			j.pause = min(max(2*j.pause, firstUnplug), lastUnplug)
			j.lookAt(now.Add(j.pause), now)
		default:
			d.detachDrive(p, j)
		}
	}, commandOf("blockdev-open-tray", map[string]any{"id": p.deviceID()}), commandOf("query-block", nil))
}

// IsCD reports whether a device ID belongs to a CD drive that was attached while the machine runs.
func IsCD(id string) bool {
	p, attached := parsePlugged(id)
	return attached && p.cd
}

// scsiAddress is the property with a SCSI device's address on its bus.
const scsiAddress = "scsi-id"

// AddressOfCD returns the command that queries the address of a CD drive by its device ID. read extracts Slot.CD
// from QEMU's answer, or "" if the address is missing. For USB, only the human monitor shows the port that QEMU
// has chosen.
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
