package machine

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

const (
	// withQEMU is how long before QEMU a helper may end that ends because of it.
	withQEMU = 2 * time.Second
	// networkPause is between two starts of a helper for a network.
	networkPause = 10 * time.Second
)

// helpers follows the processes beside QEMU. QEMU keeps running when one ends: a
// guest without its TPM is worth more than none. One for a network is started again,
// see docs/decisions/0071-passt.md.
type helpers struct {
	*line
	names    []string             // all that the plan has
	running  []string             // that ran when the State began
	networks map[string]time.Time // those for a network, and until when they are not started again
	tpm      *tpm

	ended []endedHelper // which may end with QEMU
	lost  []lostHelper
}

type lostHelper struct{ name, text string }

type endedHelper struct {
	name, exit string
	due        time.Time // when it is reported
}

func newHelpers(l *line, keep *keeper, p *plan.Plan, running []string) *helpers {
	h := &helpers{line: l, running: running, networks: map[string]time.Time{}, tpm: newTPM(l, keep, p)}
	h.tpm.answered = h.noticed
	for _, helper := range p.Helpers {
		h.names = append(h.names, helper.Name)
		if helper.Role == plan.RoleNetwork {
			h.networks[helper.Name] = time.Time{}
		}
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
	due := now.Add(withQEMU)
	if pause := h.networks[name]; due.Before(pause) {
		due = pause
	}
	h.ended = append(h.ended, endedHelper{name, exit, due})
}

// restarted takes in that a helper for a network runs again, or why it doesn't.
func (h *helpers) restarted(name string, err error, now time.Time) {
	h.networks[name] = now.Add(networkPause)
	if err != nil {
		why := strings.Join(strings.Fields(err.Error()), " ")
		h.ended = append(h.ended, endedHelper{name, "no process in its place: " + why, now.Add(networkPause)})
		return
	}
	h.log(slog.LevelInfo, "a helper was started again: the network works, connections through it are lost", "process", name)
	h.announce(now)
	h.lost = slices.DeleteFunc(slices.Clone(h.lost), func(l lostHelper) bool { return l.name == name })
	h.publishLost()
}

// announce has the cards tell their hardware addresses, which a new process for a network
// learns from what the guest sends, and can't reach it without.
func (h *helpers) announce(now time.Time) {
	often := map[string]int{"initial": 50, "max": 550, "rounds": 5, "step": 100} // milliseconds
	h.send(qmp.Command{Execute: "announce-self", Arguments: often}, now, func(a answer, _ time.Time) {
		if a.err != nil {
			h.log(slog.LevelWarn, "the VM is reached again only when its guest has sent something", "err", a.err)
		}
	})
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
		what := "; the VM runs without it until it is restarted"
		if _, network := h.networks[name]; network {
			what = "; it is started again, until then a network of the VM doesn't work"
			h.do(StartHelper{Name: name})
		}
		h.lost = append(slices.DeleteFunc(slices.Clone(h.lost), func(l lostHelper) bool { return l.name == name }),
			lostHelper{name, ended + what})
		h.publishLost()
		return
	}
	h.publish(status.TPMGone, status.Faults{
		Reason:   vmstatus.ReasonTPMLost,
		Messages: []string{ended + "; the guest runs without its TPM and cannot be reset: stop the VM and start it again"},
	})
}

func (h *helpers) publishLost() {
	var messages []string
	for _, l := range h.lost {
		messages = append(messages, l.text)
	}
	h.publish(status.Faults{Reason: vmstatus.ReasonHelperLost, Messages: messages})
}
