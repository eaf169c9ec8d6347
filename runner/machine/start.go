package machine

import (
	"fmt"
	"log/slog"
	"time"

	"vmop/qmp"
)

// start gives the machine that was started paused its wanted CPUs, memory and passwords. If QEMU refuses a
// command, the start fails.
type start struct {
	*line
	wanted  *wanted
	greeted bool // QEMU's sockets exist
	missing int  // number of missing answers
	done    bool
}

func (s *start) nextStep(now time.Time) {
	if s.done || s.missing > 0 {
		return
	}
	want := s.wanted.wish.Desired
	want.Drives, want.DrivesRevision = nil, 0 // attached when the guest runs, because a server may not answer
	want.Cards = nil                          // plugged in by the runner itself, because a tap may not be available
	step := s.wanted.rules.Next(want, now)
	s.wanted.placeThreads(step)
	if len(step.Requests) == 0 {
		if s.greeted {
			s.endStart(nil)
		}
		return
	}
	for _, r := range step.Requests {
		s.missing++
		s.sendCommand(r.Command, now, func(a answer, now time.Time) {
			s.missing--
			if a.err != nil {
				s.endStart(fmt.Errorf("%s: %w", r.Command, a.err))
				return
			}
			s.wanted.rules.Answer(r, a.reply, nil, now)
		})
	}
}

// endStart ends the start of the paused machine.
func (s *start) endStart(err error) {
	if s.done {
		return
	}
	s.done = true
	if err == nil {
		for _, p := range s.wanted.rules.Facts().Problems {
			s.addLog(slog.LevelWarn, "the VM is not as configured", "err", p.Path+": "+p.Message)
		}
	}
	s.addAction(Settled{err})
}

// noteBegan informs the rules that the guest runs. A wish before QEMU's event is already for a running guest.
func (s *start) noteBegan(now time.Time) { s.wanted.observeEvent(qmp.Event{Name: "RESUME"}, now) }
