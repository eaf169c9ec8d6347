package machine

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

const (
	// hangupTime is the interval between two queries whether QEMU has noticed the end of the TPM's process.
	// hangups is the number of queries.
	hangupTime = 200 * time.Millisecond
	hangups    = 10
	// replacements is the maximum number of replacement processes.
	replacements = 5
	// handedName is the name in QEMU of the connection that is handed over.
	handedName = "vmop-tpm"
)

// tpm monitors the process that emulates the TPM.
//
// QEMU has two connections to it. The first carries the guest's commands, and can't be reestablished. With the
// second, QEMU controls the process, and exits if the machine is reset and no process answers. Therefore the
// process is started again, and QEMU receives a connection to it. The guest remains without its TPM, but may
// reboot.
//
// See docs/decisions/0050-tpm-process.md.
type tpm struct {
	*line
	keep   *keeper
	name   string // of the helper; "" if the machine has no TPM
	socket string // of the process; "": it can't be started again

	lost     bool
	answered func() // called when QEMU has answered since, so QEMU's end was not why the process ended
	step     tpmStep
	due      time.Time // of the step
	asked    int       // number of queries whether QEMU has noticed
	started  int       // number of started processes
	chardev  string    // QEMU's name of the connection
}

type tpmStep int

const (
	tpmRests   tpmStep = iota // idle, or waiting for an answer
	tpmAsks                   // has QEMU noticed the end?
	tpmForbids                // QEMU must exit properly when the guest reboots
)

func newTPM(l *line, keep *keeper, p *plan.Plan) *tpm {
	t := &tpm{line: l, keep: keep, name: p.Helper(plan.RoleTPM)}
	for _, h := range p.Helpers {
		if h.Name == t.name {
			t.socket = socketOf(p, h)
		}
	}
	return t
}

// socketOf returns the path of a helper's socket.
func socketOf(p *plan.Plan, h plan.Process) string {
	names := h.Descriptors()
	for _, l := range p.Listeners {
		if slices.Contains(names, l.Name) {
			return l.Path
		}
	}
	return h.Ready
}

// noteEnd processes the end of the process, or of its replacement.
func (t *tpm) noteEnd() {
	t.lost, t.asked, t.due = true, 0, time.Time{}
	if t.keep.progress.TPMReplaced {
		t.keep.progress.TPMReplaced = false
		t.keep.saveProgress()
	}
	t.step = tpmAsks
	if t.socket == "" || t.started == replacements {
		t.step = tpmForbids
	}
}

// noteMissing records that an earlier runner has seen the end.
func (t *tpm) noteMissing() {
	if t.keep.progress.TPMReplaced {
		t.lost = true
		return
	}
	t.noteEnd()
}

func (t *tpm) nextStep(now time.Time) (wake time.Time) {
	switch {
	case t.step == tpmRests || !t.connected:
	case now.Before(t.due):
		return t.due
	case t.step == tpmAsks:
		t.queryConnection(now)
	case t.step == tpmForbids:
		t.forbidReboots(now)
	}
	return time.Time{}
}

// sendTPMCommand sends a command. If QEMU refuses it, the TPM process is not replaced.
func (t *tpm) sendTPMCommand(c qmp.Command, now time.Time, then func(a answer, now time.Time)) {
	t.step = tpmRests
	t.sendCommand(c, now, func(a answer, now time.Time) {
		switch {
		case a.err == nil:
			t.answered()
			then(a, now)
		case isRefusal(a.err):
			t.answered()
			t.addLog(slog.LevelWarn, "QEMU refuses another TPM process", "command", c.Execute, "err", a.err)
			t.step = tpmForbids
		default:
			t.step = tpmAsks
		}
	})
}

// queryConnection finds QEMU's end of the connection.
func (t *tpm) queryConnection(now time.Time) {
	t.sendTPMCommand(qmp.Command{Execute: "query-chardev"}, now, func(a answer, now time.Time) {
		var chardevs []struct{ Label, Filename string }
		if err := a.decodeInto(&chardevs); err != nil {
			t.addLog(slog.LevelWarn, "asking for the connection with the TPM", "err", err)
		}
		for _, c := range chardevs {
			file, _, _ := strings.Cut(c.Filename, ",")
			if file == "disconnected:unix:"+t.socket {
				t.chardev = c.Label
				t.started++
				t.addAction(StartHelper{t.name, t.socket})
				return
			}
		}
		t.step, t.due = tpmAsks, now.Add(hangupTime)
		if t.asked++; t.asked == hangups {
			t.step = tpmForbids
		}
	})
}

// noteReplaced processes the connection to the restarted process, or why it could not be started.
func (t *tpm) noteReplaced(conn *os.File, err error, now time.Time) {
	if err != nil {
		t.addLog(slog.LevelWarn, "the TPM's process cannot be started again", "process", t.name, "err", err)
		t.step = tpmForbids
		return
	}
	get := qmp.Command{Execute: "getfd", Arguments: map[string]string{"fdname": handedName}, File: conn}
	add := qmp.Command{Execute: "add_client", Arguments: map[string]string{"protocol": t.chardev, "fdname": handedName}}
	// if it fails, the next command fails as well
	t.sendCommand(get, now, func(answer, time.Time) { t.addAction(Close{conn}) })
	t.sendTPMCommand(add, now, func(answer, time.Time) {
		t.keep.progress.TPMReplaced = true
		t.keep.saveProgress()
		t.addLog(slog.LevelInfo, "the TPM's process was started again: the guest has no TPM, but may reboot", "process", t.name)
	})
}

// forbidReboots makes QEMU exit properly when the guest reboots. Otherwise QEMU would crash, and data that only
// QEMU has, such as tables of qcow2 images, would be lost.
func (t *tpm) forbidReboots(now time.Time) {
	command := qmp.Command{Execute: "set-action", Arguments: map[string]string{"reboot": "shutdown"}}
	t.step = tpmRests
	t.sendCommand(command, now, func(a answer, _ time.Time) {
		if a.err != nil && !isRefusal(a.err) {
			t.step = tpmForbids
			return
		}
		t.answered()
		if a.err != nil {
			t.addLog(slog.LevelWarn, "QEMU will crash when the guest reboots, because its TPM is lost", "err", a.err)
		}
	})
}

// noReset returns why the machine must not be reset, or "".
func (t *tpm) noReset() string {
	if t.lost {
		return "the VM cannot be reset because its TPM is lost, and a reset does not bring it back; " +
			"stop the VM and start it again"
	}
	return ""
}
