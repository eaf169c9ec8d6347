package runner

import (
	"slices"
	"sync"

	"vmop/runner/status"
)

// hold is what has happened to a machine that limits what may be done to it.
type hold struct {
	order sync.Mutex // who has it may tell the machine to stand still or go on
	mu    sync.Mutex // for the rest; nobody waits for QEMU with it
	// paused: the user has, and a machine that stands still for another reason,
	// too, must not go on when that is gone.
	paused  bool
	tpmLost bool
	lost    []string // other helpers
}

// pause notes that the user has paused the machine, or lets it go on, and
// returns whether that is new.
func (h *hold) pause(paused bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.paused
	h.paused = paused
	return paused != before
}

// inOrder does something while nobody else tells the machine to stand still or
// go on, or looks whether it does.
func (h *hold) inOrder(do func() error) error {
	h.order.Lock()
	defer h.order.Unlock()
	return do()
}

// unlessPaused does something in order to a machine that the user has not
// paused.
func (h *hold) unlessPaused(do func() error) error {
	return h.inOrder(func() error {
		if h.isPaused() {
			return nil
		}
		return do()
	})
}

func (h *hold) isPaused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused
}

func (h *hold) loseTPM() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tpmLost = true
}

func (h *hold) tpmIsLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tpmLost
}

// lose notes a helper that has ended, and returns all that have.
func (h *hold) lose(text string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = append(slices.Clip(h.lost), text)
	return h.lost
}

// noReset says why the machine must not be reset; empty if it may.
func (h *hold) noReset() string {
	if h.tpmIsLost() {
		return "the machine cannot be reset since its TPM is lost: QEMU would end; stop the VM and start it anew"
	}
	return ""
}

// explain finds the reason of an outcome that only a lost TPM explains.
func (h *hold) explain(o Outcome) Outcome {
	if o.Cause == status.CauseReset && h.tpmIsLost() {
		o.Cause = status.CauseTPM
	}
	return o
}
