package machine

import (
	"time"

	"vmop/runner/machine/reconcile"
)

// Hold leaves the machine as it is while its guest is being moved to another runner, and refuses users' requests
// with why. The guest is not resumed or paused, and the active configuration is not applied. The guest may shut
// down, and the VM may be stopped.
func (s *State) Hold(why string) { s.run.held = Refusal(why) }

// Unhold ends Hold. It queries the missed state and lets the configuration be applied.
func (s *State) Unhold(now time.Time) {
	s.run.held = ""
	if s.run.on && s.line.connected {
		s.run.lookSoon(now)
	}
}

// Continue lets the guest of a held machine run. If QEMU succeeds, the machine is no longer held.
func (s *State) Continue(to Request, now time.Time) {
	s.run.letRun(now, func(a answer, now time.Time) {
		if a.err == nil {
			s.Unhold(now)
		}
		s.line.addAction(Answer{to, a.reply, a.err})
	})
}

// Wanted returns the disks that the active configuration wants attached.
func (s *State) Wanted() []reconcile.Drive { return s.wanted.wish.Desired.Drives }

// WantedCards returns the network cards that the active configuration wants plugged in.
func (s *State) WantedCards() []reconcile.Card { return s.wanted.wish.Desired.Cards }
