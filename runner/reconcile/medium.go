package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"vmop/outbound"
	"vmop/qmp"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// medium puts the wanted medium into a CD drive.
//
// blockdev-change-medium opens the file first, so that one that can't be opened
// leaves tray and medium as they are. Then it opens the tray. A guest that uses
// the medium keeps the tray closed; it is asked to open it, and the change waits
// for that (DEVICE_TRAY_MOVED).
//
// A medium is put in once. What the guest does with the tray afterwards is its
// own affair, until another file is wanted.
type medium struct {
	dialogue
	pace
	rule    plan.Medium
	blocks  *blockDevices
	servers *servers

	wanted   bool   // there is a wish
	want     string // without the next two, which are in no status
	user     string
	password string
	seen     bool // file, isOpen and locked have been true at some time
	known    bool // they are true now
	asking   bool // the block devices, or the server
	answers  bool // the server of what is wanted
	slow     bool // QEMU had to wait for it in the last attempt
	file     string
	isOpen   bool
	locked   bool
	refused  bool // the last attempt to empty the drive
	problem  string
}

func newMedium(r plan.Medium, blocks *blockDevices, servers *servers, start Start) *medium {
	file, listed := start.Media[r.Drive]
	file, _, _ = vmspec.Credentials(file)
	return &medium{rule: r, blocks: blocks, servers: servers, file: file, known: listed, seen: listed}
}

func (m *medium) next(want *Desired, now time.Time) {
	file, given := want.Media[m.rule.Drive]
	m.wanted = given
	if !given || m.busy() || m.asking {
		return
	}
	bare, user, password := vmspec.Credentials(file)
	if bare != m.want || user != m.user || password != m.password {
		m.user, m.password = user, password
		m.want, m.problem, m.pace, m.refused = bare, "", pace{}, false
		m.answers, m.slow = false, false
	}
	switch {
	case !m.ready(now):
	case !m.known:
		m.query()
	case m.file == m.want:
		m.problem, m.locked = "", false
		m.succeeded()
	case m.want == "":
		m.remove()
	case want.Denied[m.rule.Drive] != "":
		m.problem = want.Denied[m.rule.Drive]
	case isWeb(m.want) && !m.answers:
		m.queryServer()
	default:
		m.change(now)
	}
}

// queryServer finds out whether the server of what is wanted answers.
func (m *medium) queryServer() {
	m.asking = true
	file := m.want
	m.servers.query(file, func(err error, now time.Time) {
		m.asking = false
		if m.answers = err == nil; m.answers {
			return
		}
		hint := "QEMU does not get the address before the server answers: the guest would stop while QEMU waits"
		if errors.As(err, new(*outbound.RefusedError)) {
			hint = "name a server at another address"
		}
		m.problem = fmt.Sprintf("change the medium to %s: %v; %s", file, err, hint)
		m.failed(now)
	})
}

// query asks what is true.
func (m *medium) query() {
	m.asking = true
	m.blocks.query(m.rule.Device, func(b block, err error, now time.Time) {
		m.asking = false
		if err != nil {
			m.fail(err, now)
			return
		}
		m.seen, m.known = true, true
		m.file, m.isOpen, m.locked = b.file(), b.TrayOpen, b.Locked && !b.TrayOpen
		switch {
		case m.refused && m.locked:
			m.wait(now)
		case m.refused:
			m.failed(now)
		}
		m.refused = false
	})
}

// change puts another medium in.
func (m *medium) change(began time.Time) {
	file := m.want
	m.answers = false // so that the next attempt asks again
	commands, at := m.opening()
	m.send(func(answers []answer, now time.Time) {
		err := answers[at].err
		waited := now.Sub(began)
		m.slow = isWeb(file) && waited >= slowTime && file == m.want
		switch {
		case err == nil:
			m.file, m.isOpen, m.locked, m.problem = file, false, false, ""
			m.succeeded()
		case isLocked(err):
			m.isOpen, m.locked = false, true
			m.wait(now)
		case m.slow:
			pause := min(max(2*m.pause, firstSlowPause), lastSlowPause)
			m.doubtful(fmt.Errorf("change the medium to %s: %w; the guest stopped for %s while QEMU waited, so the next "+
				"attempt is %s later", file, err, waited.Round(time.Second), pause))
			m.pause = pause
			m.until(now.Add(pause), now)
		default:
			m.fail(fmt.Errorf("change the medium to %s: %w", file, err), now)
		}
	}, commands...)
}

// opening returns the commands that change the medium, and which of them does. A password
// is in an object of QEMU while the file is opened: in the name of a file, QEMU would show
// it to whoever asks for the block devices.
func (m *medium) opening() (commands []qmp.Command, at int) {
	name, id := location(m.want), m.rule.Device+"_password"
	if m.user+m.password != "" {
		scheme, _, _ := strings.Cut(m.want, "://")
		node := map[string]string{"driver": scheme, "url": m.want}
		if m.user != "" {
			node["username"] = m.user
		}
		if m.password != "" {
			node["password-secret"] = id
		}
		text, err := json.Marshal(map[string]any{"driver": "raw", "file": node})
		if err != nil {
			panic(err) // strings can be encoded
		}
		name = "json:" + string(text)
	}
	change := qmp.Command{Execute: "blockdev-change-medium", Arguments: map[string]any{
		"id": m.rule.Device, "filename": name, "format": "raw", "read-only-mode": "read-only",
	}}
	if m.password == "" {
		return []qmp.Command{change}, 0
	}
	remove := qmp.Command{Execute: "object-del", Arguments: map[string]any{"id": id}}
	return []qmp.Command{
		remove, // what a runner may have left that was killed
		{Execute: "object-add", Arguments: map[string]any{"qom-type": "secret", "id": id, "data": m.password}},
		change, remove,
	}, 2
}

// remove empties the drive. All is said at once: if the guest keeps the tray
// closed, the second command fails and the third has nothing to do.
func (m *medium) remove() {
	id := map[string]any{"id": m.rule.Device}
	m.send(func(answers []answer, now time.Time) {
		if err := fault(answers[:2]); err != nil {
			m.refused = answers[0].err == nil
			m.doubtful(fmt.Errorf("take the medium out: %w", err))
			if !m.refused {
				m.failed(now)
			}
			return
		}
		m.file, m.isOpen, m.locked, m.problem = "", false, false, ""
		if err := answers[2].err; err != nil { // the drive is empty nevertheless
			m.isOpen = true
		}
		m.succeeded()
	},
		qmp.Command{Execute: "blockdev-open-tray", Arguments: id},
		qmp.Command{Execute: "blockdev-remove-medium", Arguments: id},
		qmp.Command{Execute: "blockdev-close-tray", Arguments: id},
	)
}

// wait waits for the guest.
func (m *medium) wait(now time.Time) {
	m.problem = "waiting for the guest to open the tray, which it has locked"
	m.failed(now)
}

// fail notes what went wrong; before the next attempt, QEMU is asked what is
// true.
func (m *medium) fail(err error, now time.Time) {
	m.doubtful(err)
	m.failed(now)
}

func (m *medium) doubtful(err error) { m.problem, m.known = err.Error(), false }

// isLocked recognizes QEMU's answer "Device 'x' is locked and force was not
// specified, wait for tray to open and try again", which has no class of its
// own. Where QEMU says it differently, the problem has QEMU's text, and nothing
// else changes.
func isLocked(err error) bool {
	var refusal *qmp.Error
	return errors.As(err, &refusal) && strings.Contains(refusal.Desc, "is locked")
}

// location returns what QEMU opens. A file of any name, even a:b.iso or
// json:c.iso, is one when its protocol is said.
func location(file string) string {
	if isWeb(file) {
		return file
	}
	return "file:" + file
}

// isWeb reports whether QEMU reads a file from a web server.
func isWeb(file string) bool {
	scheme, _, ok := strings.Cut(file, "://")
	return ok && (scheme == "http" || scheme == "https")
}

const (
	// slowTime is how long QEMU may take to open a web address: the guest is stopped
	// meanwhile.
	slowTime = time.Second
	// The pauses between attempts that took longer.
	firstSlowPause = 2 * time.Minute
	lastSlowPause  = 16 * time.Minute
)

func (m *medium) observe(e event, _ time.Time) {
	if e.name != "DEVICE_TRAY_MOVED" || e.data.ID != m.rule.Device {
		return
	}
	m.isOpen = e.data.TrayOpen
	if m.isOpen {
		m.locked = false
		if !m.slow {
			m.hurry()
		}
	}
}

// doubt has nothing to do: what is wanted is tried again anyway.
func (m *medium) doubt() {}

func (m *medium) report(f *Facts) {
	if m.seen {
		f.Media[m.rule.Drive] = Medium{File: m.file, Open: m.isOpen, Locked: m.locked, Pending: m.wanted &&
			m.file != m.want}
	}
	if m.wanted {
		f.add(m.path(), m.problem)
	}
}

func (m *medium) path() string { return fmt.Sprintf("vm.drives[%d].file", m.rule.Drive) }
