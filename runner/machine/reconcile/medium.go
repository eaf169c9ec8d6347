package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"vmop/internal/outbound"
	"vmop/qmp"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// medium puts the wanted medium into a CD drive.
//
// blockdev-change-medium opens the file first, so that a file that can't be opened leaves the tray and medium
// unchanged. Then it opens the tray. A guest that uses the medium keeps the tray closed. It is asked to open the
// tray, and the change waits for that (DEVICE_TRAY_MOVED).
//
// A medium is inserted once. After that the guest may use the tray as it likes, until another file is wanted.
type medium struct {
	dialogue
	pace
	rule    plan.Medium
	blocks  *blockDevices
	servers *servers

	wanted   bool   // a medium or an empty drive is wanted
	want     string // without user and password, which must not be in the status
	user     string
	password string
	seen     bool // file, isOpen and locked were known at some time
	known    bool // file, isOpen and locked are up to date
	asking   bool // the block devices or the server are being queried
	answers  bool // the server of the wanted medium answers
	slow     bool // QEMU had to wait for the server in the last attempt
	file     string
	isOpen   bool
	locked   bool
	refused  bool // the guest refused the last attempt to empty the drive
	problem  string
}

func newMedium(r plan.Medium, blocks *blockDevices, servers *servers, start Start) *medium {
	file, listed := start.Media[r.Drive]
	file, _, _ = vmspec.Credentials(file)
	return &medium{rule: r, blocks: blocks, servers: servers, file: file, known: listed, seen: listed}
}

func (m *medium) nextStep(want *Desired, now time.Time) {
	file, given := want.Media[m.rule.Drive]
	m.wanted = given
	if !given || m.isBusy() || m.asking {
		return
	}
	bare, user, password := vmspec.Credentials(file)
	if bare != m.want || user != m.user || password != m.password {
		m.user, m.password = user, password
		m.want, m.problem, m.pace, m.refused = bare, "", pace{}, false
		m.answers, m.slow = false, false
	}
	switch {
	case !m.isReady(now):
	case !m.known:
		m.queryMedium()
	case m.file == m.want:
		m.problem, m.locked = "", false
		m.forgetFailures()
	case m.want == "":
		m.removeMedium()
	case want.Denied[m.rule.Drive] != "":
		m.problem = want.Denied[m.rule.Drive]
	case isWeb(m.want) && !m.answers:
		m.queryServer()
	default:
		m.changeMedium(now)
	}
}

// queryServer checks whether the server of the wanted medium answers.
func (m *medium) queryServer() {
	m.asking = true
	file := m.want
	m.servers.queryServer(file, func(err error, now time.Time) {
		m.asking = false
		if m.answers = err == nil; m.answers {
			return
		}
		hint := "QEMU does not get the address before the server answers: the guest would stop while QEMU waits"
		if errors.As(err, new(*outbound.RefusedError)) {
			hint = "name a server at another address"
		}
		m.problem = fmt.Sprintf("change the medium to %s: %v; %s", file, err, hint)
		m.delayNext(now)
	})
}

// queryMedium queries the drive's state.
func (m *medium) queryMedium() {
	m.asking = true
	m.blocks.queryDevice(m.rule.Device, func(b block, err error, now time.Time) {
		m.asking = false
		if err != nil {
			m.noteFailure(err, now)
			return
		}
		m.seen, m.known = true, true
		m.file, m.isOpen, m.locked = b.fileName(), b.TrayOpen, b.Locked && !b.TrayOpen
		switch {
		case m.refused && m.locked:
			m.waitForGuest(now)
		case m.refused:
			m.delayNext(now)
		}
		m.refused = false
	})
}

// changeMedium inserts another medium.
func (m *medium) changeMedium(began time.Time) {
	file := m.want
	m.answers = false // so that the next attempt asks again
	commands, at := m.openingCommands()
	m.sendBatch(func(answers []answer, now time.Time) {
		err := answers[at].err
		waited := now.Sub(began)
		m.slow = isWeb(file) && waited >= slowTime && file == m.want
		switch {
		case err == nil:
			m.file, m.isOpen, m.locked, m.problem = file, false, false, ""
			m.forgetFailures()
		case isLocked(err):
			m.isOpen, m.locked = false, true
			m.waitForGuest(now)
		case m.slow:
			pause := min(max(2*m.pause, firstSlowPause), lastSlowPause)
			m.noteDoubt(fmt.Errorf("change the medium to %s: %w; the guest stopped for %s while QEMU waited, so the next "+
				"attempt is %s later", file, err, waited.Round(time.Second), pause))
			m.pause = pause
			m.lookAt(now.Add(pause), now)
		default:
			m.noteFailure(fmt.Errorf("change the medium to %s: %w", file, err), now)
		}
	}, commands...)
}

// openingCommands returns the commands that change the medium, and the index of the command that does it. A password is
// stored in an object of QEMU while the file is opened. If it were in the file's name, QEMU would show it in its
// list of block devices.
func (m *medium) openingCommands() (commands []qmp.Command, at int) {
	name, id := mediumLocation(m.want), m.rule.Device+"_password"
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
		remove, // leftovers of a killed runner
		{Execute: "object-add", Arguments: map[string]any{"qom-type": "secret", "id": id, "data": m.password}},
		change, remove,
	}, 2
}

// removeMedium empties the drive. It sends all commands together: if the guest keeps the tray closed, the second
// command fails and the third has no effect.
func (m *medium) removeMedium() {
	id := map[string]any{"id": m.rule.Device}
	m.sendBatch(func(answers []answer, now time.Time) {
		if err := firstError(answers[:2]); err != nil {
			m.refused = answers[0].err == nil
			m.noteDoubt(fmt.Errorf("take the medium out: %w", err))
			if !m.refused {
				m.delayNext(now)
			}
			return
		}
		m.file, m.isOpen, m.locked, m.problem = "", false, false, ""
		if err := answers[2].err; err != nil { // the drive is empty anyway
			m.isOpen = true
		}
		m.forgetFailures()
	},
		qmp.Command{Execute: "blockdev-open-tray", Arguments: id},
		qmp.Command{Execute: "blockdev-remove-medium", Arguments: id},
		qmp.Command{Execute: "blockdev-close-tray", Arguments: id},
	)
}

// waitForGuest waits for the guest.
func (m *medium) waitForGuest(now time.Time) {
	m.problem = "waiting for the guest to open the tray, which it has locked"
	m.delayNext(now)
}

// noteFailure records an error. QEMU is queried again before the next attempt.
func (m *medium) noteFailure(err error, now time.Time) {
	m.noteDoubt(err)
	m.delayNext(now)
}

func (m *medium) noteDoubt(err error) { m.problem, m.known = err.Error(), false }

// isLocked recognizes QEMU's answer "Device 'x' is locked and force was not specified, wait for tray to open and
// try again", which has a generic error class. If another version of QEMU has a different text, the only effect
// is that the problem shows QEMU's text.
func isLocked(err error) bool {
	var refusal *qmp.Error
	return errors.As(err, &refusal) && strings.Contains(refusal.Desc, "is locked")
}

// mediumLocation returns the name that QEMU opens. The protocol prefix allows files with any name, even a:b.iso or
// json:c.iso.
func mediumLocation(file string) string {
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
	// slowTime is how long QEMU may take to open a web address. The guest is stopped in the meantime.
	slowTime = time.Second
	// Pauses after attempts that took longer.
	firstSlowPause = 2 * time.Minute
	lastSlowPause  = 16 * time.Minute
)

func (m *medium) observeEvent(e event, _ time.Time) {
	if e.name != "DEVICE_TRAY_MOVED" || e.data.ID != m.rule.Device {
		return
	}
	m.isOpen = e.data.TrayOpen
	if m.isOpen {
		m.locked = false
		if !m.slow {
			m.hurryUp()
		}
	}
}

// doubtState does nothing, because the wanted change is tried again anyway.
func (m *medium) doubtState() {}

func (m *medium) reportFacts(f *Facts) {
	if m.seen {
		f.Media[m.rule.Drive] = Medium{File: m.file, Open: m.isOpen, Locked: m.locked, Pending: m.wanted &&
			m.file != m.want}
	}
	if m.wanted {
		f.addProblem(m.filePath(), m.problem)
	}
}

func (m *medium) filePath() string { return fmt.Sprintf("vm.drives[%d].file", m.rule.Drive) }
