package machine

import (
	"fmt"
	"log/slog"
	"time"

	"vmop/qmp"
)

// start gives the machine that QEMU was started with, paused, the CPUs, the
// memory and the passwords that it is to have. When QEMU refuses something, the
// machine is not started.
type start struct {
	*line
	wanted  *wanted
	greeted bool // QEMU's sockets are there
	missing int  // answers
	done    bool
}

func (s *start) next(now time.Time) {
	if s.done || s.missing > 0 {
		return
	}
	want := s.wanted.wish.Desired
	want.Drives, want.DrivesRevision = nil, 0 // they come when the guest runs: a server may not answer
	step := s.wanted.rules.Next(want, now)
	s.wanted.place(step)
	if len(step.Requests) == 0 {
		if s.greeted {
			s.settled(nil)
		}
		return
	}
	for _, r := range step.Requests {
		s.missing++
		s.send(r.Command, now, func(a answer, now time.Time) {
			s.missing--
			if a.err != nil {
				s.settled(fmt.Errorf("%s: %w", r.Command, a.err))
				return
			}
			s.wanted.rules.Answer(r, a.reply, nil, now)
		})
	}
}

// settled ends the start, as far as the paused machine is concerned.
func (s *start) settled(err error) {
	if s.done {
		return
	}
	s.done = true
	if err == nil {
		for _, p := range s.wanted.rules.Facts().Problems {
			s.log(slog.LevelWarn, "the VM is not as configured", "err", p.Path+": "+p.Message)
		}
	}
	s.do(Settled{err})
}

// began tells the rules that the guest runs: a wish that comes before QEMU's event
// is one for a guest that runs.
func (s *start) began(now time.Time) { s.wanted.observe(qmp.Event{Name: "RESUME"}, now) }
