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
	// withQEMU is how long before QEMU a helper may end because of QEMU's end.
	withQEMU = 2 * time.Second
	// networkPause is the pause between two starts of a network helper.
	networkPause = 10 * time.Second
)

// helpers monitors QEMU's helper processes. QEMU keeps running when a helper ends, because a guest without its
// TPM is better than no guest. A network helper is started again; see docs/decisions/0071-passt.md.
type helpers struct {
	*line
	names    []string             // all helpers of the plan
	running  []string             // running when the State began
	networks map[string]time.Time // network helpers, and the time before which they are not started again
	tpm      *tpm

	ended []endedHelper // may have ended together with QEMU
	lost  []lostHelper
}

type lostHelper struct{ name, text string }

type endedHelper struct {
	name, exit string
	due        time.Time // when its loss is reported
}

func newHelpers(l *line, keep *keeper, p *plan.Plan, running []string) *helpers {
	h := &helpers{line: l, running: running, networks: map[string]time.Time{}, tpm: newTPM(l, keep, p)}
	h.tpm.answered = h.noteQEMUStays
	for _, helper := range p.Helpers {
		h.names = append(h.names, helper.Name)
		if helper.Role == plan.RoleNetwork {
			h.networks[helper.Name] = time.Time{}
		}
	}
	return h
}

// reportMissing reports the helpers that were already missing when a runner adopted the machine.
func (h *helpers) reportMissing() {
	if h.tpm.name != "" {
		h.publishUpdates(status.TPMWorks)
	}
	for _, name := range h.names {
		if slices.Contains(h.running, name) {
			continue
		}
		if name == h.tpm.name {
			h.tpm.noteMissing()
		}
		h.reportLoss(name, "exit status unknown, since no runner was running")
	}
}

func (h *helpers) noteExit(name, exit string, now time.Time) {
	if name == h.tpm.name {
		again := h.tpm.lost
		h.tpm.noteEnd()
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

// noteRestart records that a network helper runs again, or why it could not be started.
func (h *helpers) noteRestart(name string, err error, now time.Time) {
	h.networks[name] = now.Add(networkPause)
	if err != nil {
		why := strings.Join(strings.Fields(err.Error()), " ")
		h.ended = append(h.ended, endedHelper{name, "no process replaces it: " + why, now.Add(networkPause)})
		return
	}
	h.addLog(slog.LevelInfo, "a helper was started again: the network works, connections through it are lost", "process", name)
	h.announceCards(now)
	h.lost = slices.DeleteFunc(slices.Clone(h.lost), func(l lostHelper) bool { return l.name == name })
	h.publishLost()
}

// announceCards makes the network cards announce their hardware addresses. A new network process learns the addresses
// from the guest's packets, and can't reach the guest before.
func (h *helpers) announceCards(now time.Time) {
	often := map[string]int{"initial": 50, "max": 550, "rounds": 5, "step": 100} // milliseconds
	h.sendCommand(qmp.Command{Execute: "announce-self", Arguments: often}, now, func(a answer, _ time.Time) {
		if a.err != nil {
			h.addLog(slog.LevelWarn, "the VM is reached again only when its guest has sent something", "err", a.err)
		}
	})
}

// noteQEMUStays records that QEMU has not ended together with its TPM.
func (h *helpers) noteQEMUStays() {
	for i := range h.ended {
		if h.ended[i].name == h.tpm.name {
			h.ended[i].due = time.Time{}
		}
	}
}

func (h *helpers) nextStep(now time.Time) (wake time.Time) {
	var waiting []endedHelper
	for _, e := range h.ended {
		if now.Before(e.due) {
			waiting, wake = append(waiting, e), soonestOf(wake, e.due)
			continue
		}
		h.reportLoss(e.name, e.exit)
	}
	h.ended = waiting
	return soonestOf(wake, h.tpm.nextStep(now))
}

// reportLoss reports the loss of a helper.
func (h *helpers) reportLoss(name, exit string) {
	h.addLog(slog.LevelWarn, "a helper ended while the VM runs", "process", name, "exit", exit)
	ended := name + " has ended: " + exit
	if name != h.tpm.name {
		what := "; the VM runs without it until it is restarted"
		if _, network := h.networks[name]; network {
			what = "; it is started again, until then a network of the VM doesn't work"
			h.addAction(StartHelper{Name: name})
		}
		h.lost = append(slices.DeleteFunc(slices.Clone(h.lost), func(l lostHelper) bool { return l.name == name }),
			lostHelper{name, ended + what})
		h.publishLost()
		return
	}
	h.publishUpdates(status.TPMGone, status.Faults{
		Reason:   vmstatus.ReasonTPMLost,
		Messages: []string{ended + "; the guest runs without its TPM and cannot be reset: stop the VM and start it again"},
	})
}

func (h *helpers) publishLost() {
	var messages []string
	for _, l := range h.lost {
		messages = append(messages, l.text)
	}
	h.publishUpdates(status.Faults{Reason: vmstatus.ReasonHelperLost, Messages: messages})
}
