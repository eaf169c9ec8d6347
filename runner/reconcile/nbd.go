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

// Times of drives of NBD servers, in seconds. QEMU opens them and ends them in its main loop, which
// is blocked while a server doesn't answer: so servers are asked first, and these are bounds for those
// that fail in between.
//
// See docs/decisions/0120-nbd-drives.md.
const (
	openTimeout    = 3
	reconnectDelay = 60 // a request waits for so long; then the VM is paused, and resumed from time to time
)

// reconnectPause is the longest that QEMU lets pass between two attempts to reach a server that
// it has lost, and some time for the attempt.
const reconnectPause = 20 * time.Second

// A server that is about to be there is soon asked again: the network of a cluster knows its address up to a second
// later than that it serves.
const (
	serverPause = 100 * time.Millisecond
	serverSoon  = 3 * time.Second
	serverLater = time.Second     // between questions to one that a manager starts, as long as that takes
	answerLasts = 3 * time.Second // so long a server that has answered is not asked again
)

// answers reports whether the server of a disk that is to be attached has just answered, and has it asked otherwise.
// Nothing waits for that: the disk is attached by next when it has.
func (d *drives) answers(w Drive, j *driveJob, now time.Time) bool {
	if !j.answered.IsZero() && now.Sub(j.answered) < answerLasts {
		return true
	}
	j.asking = true
	d.opener.query(w, func(_ *os.File, err error, now time.Time) bool {
		j.asking = false
		is := d.wanted(w.Serial)
		switch {
		case is == nil || is.mark() != w.mark(): // another one is, meanwhile
			*j = driveJob{}
		case err != nil:
			d.missed(j, err, now)
		default:
			j.answered = now
		}
		return false
	})
	return false
}

// missed has a server that has not answered asked again, soon at first. One of a manager's drives is on its way, and
// the manager knows why it isn't there: of others it is a failure.
//
// See docs/decisions/0159-images-attached-and-servers-awaited.md.
func (d *drives) missed(j *driveJob, err error, now time.Time) {
	if j.missed.IsZero() {
		j.missed = now
	}
	switch {
	case now.Sub(j.missed) < serverSoon:
		j.until(now.Add(serverPause), now)
	case d.revision != 0:
		j.message, j.failed = "waiting for the disk's server: "+err.Error(), false
		j.until(now.Add(serverLater), now)
	default:
		j.fail("attach the disk: "+err.Error(), now)
	}
}

// credentials is the name of the object with the certificates of a drive.
func credentials(serial string) string { return "tls-" + serial }

func removeCredentials(serial string) qmp.Command {
	return commandOf("object-del", map[string]any{"id": credentials(serial)})
}

// serverOf returns the server of a block node's file, as QEMU names it.
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

// served reports whether the server of a disk that is to be released has just answered, so that QEMU need not wait, and
// has it asked otherwise.
func (d *drives) served(p plugged, j *driveJob, now time.Time) bool {
	if p.server == nil || !j.answered.IsZero() && now.Sub(j.answered) < answerLasts {
		return true
	}
	// Which certificates it has, QEMU knows, whatever the configuration says now.
	d.send(func(answers []answer, _ time.Time) {
		server := *p.server
		if answers[0].err == nil && answers[0].decode(&server.TLS) != nil {
			server.TLS = ""
		}
		j.asking = true
		ask := Drive{Drive: vmspec.Drive{Serial: p.serial, NBD: &server}}
		d.opener.query(ask, func(_ *os.File, err error, now time.Time) bool {
			j.asking = false
			switch {
			case err != nil:
				j.away = true
				j.fail(fmt.Sprintf("the disk is detached when its server answers; the guest would stop for up to %d seconds "+
					"otherwise: %v", reconnectDelay, err), now)
			case j.away: // QEMU may not have noticed yet
				j.away = false
				j.message = "the disk's server answers again; waiting until QEMU is connected with it"
				j.until(now.Add(reconnectPause), now)
			default:
				j.answered = now
			}
			return false
		})
	}, commandOf("qom-get", map[string]any{"path": "/objects/" + credentials(p.serial), "property": "dir"}))
	return false
}
