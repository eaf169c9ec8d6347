package reconcile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmspec"
)

// Timeouts of drives on NBD servers, in seconds. QEMU opens and closes these drives in its main loop, which is
// blocked while a server does not answer. Therefore servers are queried first, and these timeouts only apply to
// servers that fail in between.
//
// See docs/decisions/0120-nbd-drives.md.
const (
	openTimeout    = 3
	reconnectDelay = 60 // a request waits this long; then the VM is paused, and resumed from time to time
)

// reconnectPause is QEMU's longest pause between attempts to reach a lost server, plus some time for the attempt.
const reconnectPause = 20 * time.Second

// A server that will be available soon is queried frequently. The network of a cluster may know a server's
// address up to a second after the server has started.
const (
	serverPause = 100 * time.Millisecond
	serverSoon  = 3 * time.Second
	serverLater = time.Second     // interval while a manager starts a server
	answerLasts = 3 * time.Second // how long an answer of a server is valid
)

// hasServerAnswered reports whether the server of a disk that must be attached has just answered, and otherwise queries
// it. Other work does not wait for the server; nextStep attaches the disk after the answer.
func (d *drives) hasServerAnswered(w Drive, j *driveJob, now time.Time) bool {
	if !j.answered.IsZero() && now.Sub(j.answered) < answerLasts {
		return true
	}
	j.asking = true
	d.opener.queryFile(w, func(_ *os.File, err error, now time.Time) bool {
		j.asking = false
		is := d.wantedDrive(w.Serial)
		switch {
		case is == nil || is.identityMark() != w.identityMark(): // another disk is wanted in the meantime
			*j = driveJob{}
		case err != nil:
			d.noteMissed(j, err, now)
		default:
			j.answered = now
		}
		return false
	})
	return false
}

// noteMissed schedules the next query of a server that has not answered, at first soon. With a manager's drive, the
// server is still starting, and the manager reports problems. For other drives a missing answer is a failure.
//
// See docs/decisions/0159-images-attached-and-servers-awaited.md.
func (d *drives) noteMissed(j *driveJob, err error, now time.Time) {
	if j.missed.IsZero() {
		j.missed = now
	}
	switch {
	case now.Sub(j.missed) < serverSoon:
		j.lookAt(now.Add(serverPause), now)
	case d.revision != 0:
		j.message, j.failed = "waiting for the disk's server: "+err.Error(), false
		j.lookAt(now.Add(serverLater), now)
	default:
		j.noteFailure("attach the disk: "+err.Error(), now)
	}
}

// credentialsID returns the name of the object with a drive's certificates.
func credentialsID(serial string) string { return "tls-" + serial }

func removeCredentials(serial string) qmp.Command {
	return commandOf("object-del", map[string]any{"id": credentialsID(serial)})
}

// serverOf returns the server of a block node, from the file name that QEMU reports.
func serverOf(driver, file string) *vmspec.NBD {
	rest, is := strings.CutPrefix(file, "nbd://")
	if driver != "nbd" || !is {
		return nil
	}
	address, export, _ := strings.Cut(rest, "/")
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 {
		return nil
	}
	port, err := strconv.Atoi(address[colon+1:])
	if err != nil {
		return nil
	}
	return &vmspec.NBD{Host: strings.Trim(address[:colon], "[]"), Port: port, Export: export}
}

// canReachServer reports whether the server of a disk that must be released has just answered, so that QEMU need not
// wait. Otherwise it queries the server.
func (d *drives) canReachServer(p plugged, j *driveJob, now time.Time) bool {
	if p.server == nil || !j.answered.IsZero() && now.Sub(j.answered) < answerLasts {
		return true
	}
	// QEMU knows the drive's certificates, even if the configuration has changed.
	d.sendBatch(func(answers []answer, _ time.Time) {
		server := *p.server
		if answers[0].err == nil && answers[0].decodeInto(&server.TLS) != nil {
			server.TLS = ""
		}
		j.asking = true
		ask := Drive{Drive: vmspec.Drive{Serial: p.serial, NBD: &server}}
		d.opener.queryFile(ask, func(_ *os.File, err error, now time.Time) bool {
			j.asking = false
			switch {
			case err != nil:
				j.away = true
				j.noteFailure(fmt.Sprintf("the disk is detached when its server answers; the guest would stop for up to %d seconds "+
					"otherwise: %v", reconnectDelay, err), now)
			case j.away: // QEMU may not have noticed yet
				j.away = false
				j.message = "the disk's server answers again; waiting until QEMU is connected with it"
				j.lookAt(now.Add(reconnectPause), now)
			default:
				j.answered = now
			}
			return false
		})
	}, commandOf("qom-get", map[string]any{"path": "/objects/" + credentialsID(p.serial), "property": "dir"}))
	return false
}
