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
	// hangupTime is between two questions whether QEMU has noticed the end of the
	// TPM's process, and hangups how many there are.
	hangupTime = 200 * time.Millisecond
	hangups    = 10
	// replacements is how many processes follow the first one.
	replacements = 5
	// handedName is the name in QEMU of the connection that is handed over.
	handedName = "vmop-tpm"
)

// tpm follows the process that emulates the TPM.
//
// QEMU speaks with it over two connections: one carries what the guest says, and
// cannot be made again; by the other, QEMU controls it, and exits when the machine
// is reset and no process answers. So the process is started again, and QEMU is given
// a connection with it: the guest stays without its TPM, but may reboot.
//
// See docs/decisions/0050-tpm-process.md.
type tpm struct {
	*line
	keep   *keeper
	name   string // of the helper; "" if the machine has no TPM
	socket string // on which it is reached; "": it cannot be started again

	lost     bool
	answered func() // QEMU has answered since: its end was not why the process ended
	step     tpmStep
	due      time.Time // of the step
	asked    int       // questions whether QEMU has noticed
	started  int       // processes
	chardev  string    // QEMU's name of the connection
}

type tpmStep int

const (
	tpmRests   tpmStep = iota // nothing to do, or something is awaited
	tpmAsks                   // has QEMU noticed the end?
	tpmForbids                // QEMU is to end in good order when the guest reboots
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

// socketOf returns the path of the socket on which a helper is reached.
func socketOf(p *plan.Plan, h plan.Process) string {
	names := h.Descriptors()
	for _, l := range p.Listeners {
		if slices.Contains(names, l.Name) {
			return l.Path
		}
	}
	return h.Ready
}

// ended takes in the end of the process, or that of one that was started again.
func (t *tpm) ended() {
	t.lost, t.asked, t.due = true, 0, time.Time{}
	if t.keep.progress.TPMReplaced {
		t.keep.progress.TPMReplaced = false
		t.keep.save()
	}
	t.step = tpmAsks
	if t.socket == "" || t.started == replacements {
		t.step = tpmForbids
	}
}

// missing takes in that an earlier runner has seen the end.
func (t *tpm) missing() {
	if t.keep.progress.TPMReplaced {
		t.lost = true
		return
	}
	t.ended()
}

func (t *tpm) next(now time.Time) (wake time.Time) {
	switch {
	case t.step == tpmRests || !t.connected:
	case now.Before(t.due):
		return t.due
	case t.step == tpmAsks:
		t.query(now)
	case t.step == tpmForbids:
		t.forbidReboots(now)
	}
	return time.Time{}
}

// says says a command. If QEMU refuses it, there is no other TPM process.
func (t *tpm) says(c qmp.Command, now time.Time, then func(a answer, now time.Time)) {
	t.step = tpmRests
	t.send(c, now, func(a answer, now time.Time) {
		switch {
		case a.err == nil:
			t.answered()
			then(a, now)
		case refused(a.err):
			t.answered()
			t.log(slog.LevelWarn, "QEMU refuses another TPM process", "command", c.Execute, "err", a.err)
			t.step = tpmForbids
		default:
			t.step = tpmAsks
		}
	})
}

// query finds QEMU's end of the connection.
func (t *tpm) query(now time.Time) {
	t.says(qmp.Command{Execute: "query-chardev"}, now, func(a answer, now time.Time) {
		var chardevs []struct{ Label, Filename string }
		if err := a.decode(&chardevs); err != nil {
			t.log(slog.LevelWarn, "asking for the connection with the TPM", "err", err)
		}
		for _, c := range chardevs {
			file, _, _ := strings.Cut(c.Filename, ",")
			if file == "disconnected:unix:"+t.socket {
				t.chardev = c.Label
				t.started++
				t.do(StartHelper{t.name, t.socket})
				return
			}
		}
		t.step, t.due = tpmAsks, now.Add(hangupTime)
		if t.asked++; t.asked == hangups {
			t.step = tpmForbids
		}
	})
}

// replaced takes in the connection with the process that was started again, or why
// there is none.
func (t *tpm) replaced(conn *os.File, err error, now time.Time) {
	if err != nil {
		t.log(slog.LevelWarn, "the TPM's process cannot be started again", "process", t.name, "err", err)
		t.step = tpmForbids
		return
	}
	get := qmp.Command{Execute: "getfd", Arguments: map[string]string{"fdname": handedName}, File: conn}
	add := qmp.Command{Execute: "add_client", Arguments: map[string]string{"protocol": t.chardev, "fdname": handedName}}
	t.send(get, now, func(answer, time.Time) { t.do(Close{conn}) }) // if it fails, the next one does
	t.says(add, now, func(answer, time.Time) {
		t.keep.progress.TPMReplaced = true
		t.keep.save()
		t.log(slog.LevelInfo, "the TPM's process was started again: the guest has no TPM, but may reboot", "process", t.name)
	})
}

// forbidReboots has QEMU end in good order when the guest reboots. Otherwise it
// would crash then: data that only QEMU has, such as the tables of qcow2 images,
// would be lost.
func (t *tpm) forbidReboots(now time.Time) {
	command := qmp.Command{Execute: "set-action", Arguments: map[string]string{"reboot": "shutdown"}}
	t.step = tpmRests
	t.send(command, now, func(a answer, _ time.Time) {
		if a.err != nil && !refused(a.err) {
			t.step = tpmForbids
			return
		}
		t.answered()
		if a.err != nil {
			t.log(slog.LevelWarn, "QEMU will crash when the guest reboots, because its TPM is lost", "err", a.err)
		}
	})
}

// noReset says why the machine must not be reset; empty if it may.
func (t *tpm) noReset() string {
	if t.lost {
		return "the VM cannot be reset because its TPM is lost, and a reset does not bring it back; " +
			"stop the VM and start it again"
	}
	return ""
}
