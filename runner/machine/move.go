package machine

import (
	"time"

	"vmop/qmp"
	"vmop/runner/reconcile"
)

// Hold leaves the machine as it is, because its guest is being moved to another runner, and says so to users: the
// guest is neither resumed nor paused, and the configuration in force is not applied. The guest may shut down, and the
// VM be stopped.
func (s *State) Hold(why string) { s.run.held = Refusal(why) }

// Unhold ends that. What was missed is asked for, and the configuration applied.
func (s *State) Unhold(now time.Time) {
	s.run.held = ""
	if s.run.on && s.line.connected {
		s.run.soon(now)
	}
}

// Continue lets the guest of a held machine run. If QEMU does it, the machine is not held any more.
func (s *State) Continue(to Request, now time.Time) {
	s.run.order++
	s.line.send(qmp.Command{Execute: "cont"}, now, func(a answer, now time.Time) {
		if a.err == nil {
			s.Unhold(now)
		}
		s.line.do(Answer{to, a.reply, a.err})
	})
}

// Wanted are the disks that the configuration in force wants to be attached.
func (s *State) Wanted() []reconcile.Drive { return s.wanted.wish.Desired.Drives }
