package machine

import (
	"log/slog"
	"slices"
	"time"

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
	tpm     *tpm

	ended []endedHelper // which may end with QEMU
	lost  []string
}

type endedHelper struct {
	name, exit string
	due        time.Time // when it is reported
}

func newHelpers(l *line, keep *keeper, p *plan.Plan, running []string) *helpers {
	h := &helpers{line: l, running: running, tpm: newTPM(l, keep, p)}
	h.tpm.answered = h.noticed
	for _, helper := range p.Helpers {
		h.names = append(h.names, helper.Name)
	}
	return h
}

// begin reports the helpers that are missing already where a runner takes over a
// machine.
func (h *helpers) begin() {
	if h.tpm.name != "" {
		h.publish(status.TPMWorks)
	}
	for _, name := range h.names {
		if slices.Contains(h.running, name) {
			continue
		}
		if name == h.tpm.name {
			h.tpm.missing()
		}
		h.lose(name, "exit status unknown, since no runner was running")
	}
}

func (h *helpers) exited(name, exit string, now time.Time) {
	if name == h.tpm.name {
		again := h.tpm.lost
		h.tpm.ended()
		if again {
			return // it has been reported
		}
	}
	h.ended = append(h.ended, endedHelper{name, exit, now.Add(withQEMU)})
}

// noticed takes in that QEMU has not ended with its TPM.
func (h *helpers) noticed() {
	for i := range h.ended {
		if h.ended[i].name == h.tpm.name {
			h.ended[i].due = time.Time{}
		}
	}
}

func (h *helpers) next(now time.Time) (wake time.Time) {
	var waiting []endedHelper
	for _, e := range h.ended {
		if now.Before(e.due) {
			waiting, wake = append(waiting, e), soonest(wake, e.due)
			continue
		}
		h.lose(e.name, e.exit)
	}
	h.ended = waiting
	return soonest(wake, h.tpm.next(now))
}

// lose reports the loss of a helper.
func (h *helpers) lose(name, exit string) {
	h.log(slog.LevelWarn, "a helper ended while the VM runs", "process", name, "exit", exit)
	ended := name + " has ended: " + exit
	if name != h.tpm.name {
		h.lost = append(slices.Clip(h.lost), ended+"; the VM runs without it until it is restarted")
		h.publish(status.Faults{Reason: vmstatus.ReasonHelperLost, Messages: h.lost})
		return
	}
	h.publish(status.TPMGone, status.Faults{
		Reason:   vmstatus.ReasonTPMLost,
		Messages: []string{ended + "; the guest runs without its TPM and cannot be reset: stop the VM and start it again"},
	})
}
