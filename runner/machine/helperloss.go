package machine

import (
	"log/slog"
	"slices"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// withQEMU is how long before QEMU a helper may end that ends because of it.
const withQEMU = 2 * time.Second

// helpers follows the processes beside QEMU. QEMU keeps running when one ends: a
// guest without its TPM is worth more than none.
type helpers struct {
	*line
	names   []string // all that the plan has
	running []string // that ran when the State began
	tpm     string   // the one that is the TPM; "" if there is none

	ended   []endedHelper // which may end with QEMU
	lost    []string
	tpmLost bool
	// Whether QEMU does not reset the machine any more when the guest reboots.
	forbidding, forbidden bool
}

type endedHelper struct {
	name, exit string
	at         time.Time
}

func newHelpers(l *line, p *plan.Plan, running []string) *helpers {
	h := &helpers{line: l, running: running, tpm: p.Helper(plan.RoleTPM)}
	for _, helper := range p.Helpers {
		h.names = append(h.names, helper.Name)
	}
	return h
}

// begin reports the helpers that are missing already where a runner takes over a
// machine.
func (h *helpers) begin() {
	if h.tpm != "" {
		h.publish(status.TPMWorks)
	}
	for _, name := range h.names {
		if !slices.Contains(h.running, name) {
			h.lose(name, "exit status unknown, since no runner was running")
		}
	}
}

func (h *helpers) exited(name, exit string, now time.Time) {
	h.ended = append(h.ended, endedHelper{name, exit, now})
}

func (h *helpers) next(now time.Time) (wake time.Time) {
	for len(h.ended) > 0 {
		first := h.ended[0]
		if due := first.at.Add(withQEMU); now.Before(due) {
			wake = due
			break
		}
		h.ended = h.ended[1:]
		h.lose(first.name, first.exit)
	}
	if h.tpmLost && !h.forbidden && !h.forbidding && h.connected {
		h.forbidReboots(now)
	}
	return wake
}

// lose reports the loss of a helper.
func (h *helpers) lose(name, exit string) {
	h.log(slog.LevelWarn, "a helper ended while the VM runs", "process", name, "exit", exit)
	ended := name + " has ended: " + exit
	if name != h.tpm {
		h.lost = append(slices.Clip(h.lost), ended+"; the VM runs without it until it is restarted")
		h.publish(status.Faults{Reason: vmstatus.ReasonHelperLost, Messages: h.lost})
		return
	}
	h.tpmLost = true
	h.publish(status.TPMGone, status.Faults{
		Reason:   vmstatus.ReasonTPMLost,
		Messages: []string{ended + "; the guest runs without its TPM and cannot be reset: stop the VM and start it again"},
	})
}

// noReset says why the machine must not be reset; empty if it may.
func (h *helpers) noReset() string {
	if h.tpmLost {
		return "the VM cannot be reset because its TPM is lost: QEMU would exit; stop the VM and start it again"
	}
	return ""
}

// forbidReboots has QEMU end in good order when the guest reboots without its
// TPM. Otherwise it would crash then, since it cannot reset the TPM: data that
// only QEMU has, such as the tables of qcow2 images, would be lost. It cannot be
// kept running either way.
func (h *helpers) forbidReboots(now time.Time) {
	h.forbidding = true
	command := qmp.Command{Execute: "set-action", Arguments: map[string]string{"reboot": "shutdown"}}
	h.send(command, now, func(a answer, _ time.Time) {
		h.forbidding, h.forbidden = false, a.err == nil || refused(a.err)
		if a.err != nil {
			h.log(slog.LevelWarn, "QEMU will crash when the guest reboots, because its TPM is lost", "err", a.err)
		}
	})
}
