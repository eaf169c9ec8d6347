package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"vmop/qmp"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
)

const (
	// offerTime is how long a target may not be reached before the migration is given up.
	offerTime = 30 * time.Second
	// redialTime is between two attempts to reach it.
	redialTime = time.Second
)

// SourceConfig is what the side needs that has the guest. All are required, but Silence, and Socket without Disks.
type SourceConfig struct {
	Machine Machine
	// DataDir is the VM's, where the note is.
	DataDir string
	Keys    link.Keys
	// Offer is what the target compares, encoded as JSON.
	Offer  any
	Bounds Bounds
	// Disks are those that can be copied, and Socket is the path of a socket that the machine's QEMU can connect with.
	Disks  []Disk
	Socket string
	// SPICE: the machine has a server of SPICE, whose clients are to be sent to the target.
	SPICE bool
	// Check returns an error if the guest, which is paused, is not as it was offered any more. It may be nil.
	Check func(ctx context.Context) error
	// Stop has the guest paused before its memory is sent: QEMU may miss what it writes meanwhile.
	Stop bool
	// Silence is how long the target may say nothing while the guest is paused; 0 is DefaultSilence.
	Silence time.Duration
	Log     *slog.Logger
	// Tell is called often, by one goroutine at a time, until Run returns.
	Tell func(Progress)
}

// A Source moves its guest away.
type Source struct {
	*side
	cfg   SourceConfig
	state migrate.Source

	dialing bool
	copies  []Disk  // that the target wants to have copied
	screen  *Screen // of the target
	// directed: the clients of SPICE know it.
	directed bool
	far      Progress // of memory and disks; that of the goroutine that copies
	// halt ends the goroutine that copies. cut ends the streams of the disks, and copying all streams.
	halt, cut, copying func()
	unlimited          func() // ends the time that the stage has

	// switched is true after QEMU was asked to release the disks and to send the rest.
	switched bool

	fenced bool          // the target is gone for good, and the guest with it
	ended  chan struct{} // closed when Run has returned
}

// ErrReclaimed says that the guest was released to a target that is gone for good: it runs nowhere, and may be
// started anew.
var ErrReclaimed = errors.New("the guest was released to a target that is gone for good")

// Reasons for which a guest is not reclaimed.
var (
	ErrNotReleased = errors.New("the guest is not released to another runner")
	ErrAnswers     = errors.New("the target of the guest is connected: it is asked whether it has the guest; a " +
		"connection with a computer that is gone ends within two minutes")
)

// NewSource returns a source, for Run.
func NewSource(cfg SourceConfig) *Source {
	nothing := func() {}
	cfg.Silence = cmp.Or(cfg.Silence, DefaultSilence)
	return &Source{
		side: newSide(cfg.Machine, cfg.DataDir, Note{Keys: cfg.Keys}, cfg.Log, cfg.Tell), cfg: cfg,
		halt: nothing, cut: nothing, copying: nothing, unlimited: nothing, ended: make(chan struct{}),
	}
}

// Cancel ends the migration, if the guest isn't released yet, for a reason.
func (s *Source) Cancel(ctx context.Context, why error) {
	s.happens(ctx, happening{event: migrate.Cancelled, err: why})
}

// Fence takes in that nothing of the target runs any more, nor ever will: then a guest that was released is lost, its
// QEMU is ended, and Run returns ErrReclaimed. It returns ErrNotReleased or ErrAnswers if that isn't so. An error
// that is the context's says neither.
//
// See docs/decisions/0140-reclaim.md.
func (s *Source) Fence(ctx context.Context) error {
	answer := make(chan error, 1)
	s.happens(ctx, happening{event: migrate.Fenced, answer: answer})
	select {
	case err := <-answer:
		return err
	case <-s.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-answer:
		return err
	default:
		return ErrNotReleased
	}
}

// Run moves the guest, or continues a migration of an earlier runner, of which there is a record. It returns
// nil if the guest is the target's, and QEMU has ended; ErrReclaimed if it is neither side's; else why the guest
// stays, which continues. An error that is the context's says neither. It is called once.
func (s *Source) Run(ctx context.Context, from migrate.Record) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(s.ended)
	defer s.disconnect()
	defer s.hush()
	s.state = migrate.SourceOf(from)
	begin := migrate.Begin
	if from != migrate.NoRecord {
		begin = migrate.Restarted
	}
	s.watch(ctx)
	h := happening{event: begin}
	for {
		s.on(ctx, h)
		switch s.state.Stage {
		case migrate.Gone:
			return s.gone()
		case migrate.Still:
			if s.why == nil {
				s.why = errors.New("the migration was interrupted")
			}
			return s.why
		}
		var err error
		if h, err = s.next(ctx); err != nil {
			return err
		}
		s.understand(ctx, &h)
	}
}

// gone ends the migration of a guest that isn't the source's any more. As long as its QEMU is there, nothing may take
// it for one that can be resumed.
func (s *Source) gone() error {
	if !s.fenced {
		return nil
	}
	select {
	case <-s.machine.Done():
		return errors.Join(ErrReclaimed, s.write(migrate.NoRecord))
	default:
		return fmt.Errorf("%w, but its QEMU has not ended here", ErrReclaimed)
	}
}

// fence decides whether the end of the target is taken in.
func (s *Source) fence(h *happening) {
	var err error
	switch {
	case s.state.Stage != migrate.Asking:
		err = ErrNotReleased
	case s.conn != nil:
		err = ErrAnswers
	}
	if s.fenced = err == nil; !s.fenced {
		h.event = ""
	}
	h.answer <- err
}

// understand takes in what comes with an event.
func (s *Source) understand(ctx context.Context, h *happening) {
	s.log.Debug("migration: event", "event", string(h.event), "err", h.err)
	switch h.event {
	case migrate.Connected:
		s.dialing = false
		s.connect(ctx, h.conn)
	case migrate.Fenced:
		s.fence(h)
	case migrate.Heard(migrate.Accept):
		if err := s.agree(h.data); err != nil {
			s.blame(err)
			h.event = migrate.Cancelled
		}
	case migrate.Heard(migrate.Refuse):
		s.blame(fmt.Errorf("the target refuses the guest: %s", saidBy(h.data)))
	case migrate.Heard(migrate.Aborted):
		s.blame(fmt.Errorf("the target has given up: %s", saidBy(h.data)))
	case migrate.Disconnected:
		s.blame(errors.New("the connection with the target has ended"))
	case migrate.QEMUEnded:
		s.blame(errors.New("QEMU has ended"))
	}
}

func (s *side) blame(err error) {
	if s.why == nil {
		s.why = err
	}
}

// on takes in an event, and carries out what follows. A record that can't be written is as bad as a copy that
// fails: nothing that depends on it is done.
func (s *Source) on(ctx context.Context, h happening) {
	before := s.state
	var actions []migrate.Action
	s.state, actions = s.state.On(h.event)
	if s.state.Stage != before.Stage {
		s.limit(ctx)
	}
	s.publish(Progress{Stage: s.state.Stage})
	for _, a := range actions {
		err := s.carryOut(ctx, a)
		if err != nil && a.Do == migrate.Write && (a.Note == migrate.Migrating || a.Note == migrate.Released) {
			s.blame(err)
			s.state = before
			if before.Stage == migrate.Still {
				return
			}
			h = happening{event: migrate.Failed}
			s.on(ctx, h)
			return
		}
	}
}

func (s *Source) carryOut(ctx context.Context, a migrate.Action) error {
	switch a.Do {
	case migrate.Write:
		return s.write(a.Note)
	case migrate.Say:
		switch a.Message {
		case migrate.Offer:
			s.send(a.Message, s.cfg.Offer)
		case migrate.Go:
			s.send(a.Message, s.machine.Paused())
			s.expectAnswer()
		default:
			s.send(a.Message, s.reason())
		}
	case migrate.Connect:
		s.dial(ctx)
	case migrate.Copy:
		s.copy(ctx)
	case migrate.Switch:
		limited, cancel := context.WithTimeout(ctx, replyTime)
		defer cancel()
		err := error(nil)
		if s.cfg.Check != nil {
			err = s.cfg.Check(limited)
		}
		if err == nil {
			err = s.endCopies(limited)
		}
		if err == nil {
			s.switched = true
			err = command(limited, s.machine, qmp.Command{
				Execute: "migrate-continue", Arguments: members{"state": "pre-switchover"},
			})
		}
		if err != nil {
			s.later(ctx, happening{event: migrate.Failed, err: err})
		}
	case migrate.StopCopying:
		s.stopCopying(ctx)
	case migrate.Resume:
		s.resume(ctx)
	case migrate.Quit:
		s.halt()
		s.copying()
		s.awaitViewers(ctx)
		s.quit(ctx)
	}
	return nil
}

// resume has the guest continue here. As long as QEMU refuses, which is when the target still has the disks, it is
// asked again: the target doesn't resume the guest.
func (s *Source) resume(ctx context.Context) {
	for attempt := 0; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, replyTime)
		err := s.machine.Continue(limited, s.machine.Paused())
		cancel()
		if err == nil {
			return
		}
		if attempt == 0 {
			s.log.Error("migration: the guest is not resumed yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.machine.Done():
			return
		case <-time.After(pollTime):
		}
	}
}

// later brings an event from the side's own goroutine.
func (s *side) later(ctx context.Context, h happening) { go s.happens(ctx, h) }

// dial reaches the target, again and again.
func (s *Source) dial(ctx context.Context) {
	if s.dialing {
		return
	}
	s.dialing = true
	since, offering := time.Now(), s.state.Stage == migrate.Offering
	go func() {
		for {
			c, err := link.Dial(ctx, s.cfg.Keys, "")
			if err == nil {
				s.happens(ctx, happening{event: migrate.Connected, conn: c})
				return
			}
			if offering && time.Since(since) > offerTime {
				s.happens(ctx, happening{event: migrate.Cancelled, err: err})
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(redialTime):
			}
		}
	}()
}
