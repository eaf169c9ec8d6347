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
	// offerTime is how long a target may be unreachable before the migration is given up.
	offerTime = 30 * time.Second
	// redialTime is the pause between two connection attempts.
	redialTime = time.Second
)

// SourceConfig configures a Source. All fields are required except Check and Silence, and Socket if Disks is
// empty.
type SourceConfig struct {
	Machine Machine
	// DataDir is the VM's data directory, which contains the note.
	DataDir string
	Keys    link.Keys
	// Offer is encoded as JSON. The target compares it with its own plan.
	Offer  any
	Bounds Bounds
	// Disks are the disks that can be copied. The machine's QEMU must be able to connect to a socket at the path
	// Socket.
	Disks  []Disk
	Socket string
	// SPICE reports whether the machine has a SPICE server with clients that should move to the target.
	SPICE bool
	// Check returns an error if the paused guest no longer matches the offer. It may be nil.
	Check func(ctx context.Context) error
	// Stop pauses the guest before its memory is sent, because QEMU may miss writes in the meantime.
	Stop bool
	// Silence is how long the target may be silent while the guest is paused; 0 means defaultSilence.
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
	copies  []Disk  // that the target needs copied
	screen  *Screen // of the target
	// directed is true when the SPICE clients know the target's screen.
	directed bool
	far      Progress // of memory and disks; used by the copying goroutine
	// halt ends the goroutine that copies. cut ends the streams of the disks, and copying ends all streams.
	halt, cut, copying func()
	unlimited          func() // cancels the time limit of the stage

	// switched is true after QEMU was asked to release the disks and to send the rest.
	switched bool

	fenced bool          // the target is gone for good, and the guest with it
	ended  chan struct{} // closed when Run has returned
}

// ErrReclaimed reports that the guest was released to a target that is gone for good. It runs nowhere, and may be
// started again.
var ErrReclaimed = errors.New("the guest was released to a target that is gone for good")

// Reasons why a guest is not reclaimed.
var (
	ErrNotReleased = errors.New("the guest is not released to another runner")
	errAnswers     = errors.New("the target of the guest is connected: it is asked whether it has the guest; a " +
		"connection with a computer that is gone ends within two minutes")
)

// NewSource returns a source; call Run to use it.
func NewSource(cfg SourceConfig) *Source {
	nothing := func() {}
	cfg.Silence = cmp.Or(cfg.Silence, defaultSilence)
	return &Source{
		side: newSide(cfg.Machine, cfg.DataDir, Note{Keys: cfg.Keys}, cfg.Log, cfg.Tell), cfg: cfg,
		halt: nothing, cut: nothing, copying: nothing, unlimited: nothing, ended: make(chan struct{}),
	}
}

// Cancel ends the migration for the given reason, unless the guest has already been released.
func (s *Source) Cancel(ctx context.Context, why error) {
	s.raiseEvent(ctx, happening{event: migrate.Cancelled, err: why})
}

// Fence reports that everything of the target has ended for good. A guest that was released is then lost: its
// QEMU is ended, and Run returns ErrReclaimed. Fence returns ErrNotReleased, or another error, if it is not accepted.
// If it returns the context's error, the result is unknown.
//
// See docs/decisions/0140-reclaim.md.
func (s *Source) Fence(ctx context.Context) error {
	answer := make(chan error, 1)
	s.raiseEvent(ctx, happening{event: migrate.Fenced, answer: answer})
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

// Run moves the guest, or continues the recorded migration of an earlier runner. Call it once. It returns:
//
//   - nil if the target has the guest and this side's QEMU has ended
//   - ErrReclaimed if the guest is lost
//   - the context's error if the result is unknown
//   - another error with the reason why the guest stays here and continues
func (s *Source) Run(ctx context.Context, from migrate.Record) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(s.ended)
	defer s.dropConnection()
	defer s.stopPublishing()
	s.state = migrate.SourceOf(from)
	begin := migrate.Begin
	if from != migrate.NoRecord {
		begin = migrate.Restarted
	}
	s.watchQEMU(ctx)
	h := happening{event: begin}
	for {
		s.handleEvent(ctx, h)
		switch s.state.Stage {
		case migrate.Gone:
			return s.endForGone()
		case migrate.Still:
			if s.why == nil {
				s.why = errors.New("the migration was interrupted")
			}
			return s.why
		}
		var err error
		if h, err = s.nextEvent(ctx); err != nil {
			return err
		}
		s.understandEvent(ctx, &h)
	}
}

// endForGone returns the result for a guest that has left the source. While its QEMU exists, the record stays, so that
// the guest is not taken for one that can be resumed.
func (s *Source) endForGone() error {
	if !s.fenced {
		return nil
	}
	select {
	case <-s.machine.Done():
		return errors.Join(ErrReclaimed, s.writeRecord(migrate.NoRecord))
	default:
		return fmt.Errorf("%w, but its QEMU has not ended here", ErrReclaimed)
	}
}

// fenceEvent decides whether the end of the target is accepted.
func (s *Source) fenceEvent(h *happening) {
	var err error
	switch {
	case s.state.Stage != migrate.Asking:
		err = ErrNotReleased
	case s.conn != nil:
		err = errAnswers
	}
	if s.fenced = err == nil; !s.fenced {
		h.event = ""
	}
	h.answer <- err
}

// understandEvent processes the data of an event.
func (s *Source) understandEvent(ctx context.Context, h *happening) {
	s.log.Debug("migration: event", "event", string(h.event), "err", h.err)
	switch h.event {
	case migrate.Connected:
		s.dialing = false
		s.useConnection(ctx, h.conn)
	case migrate.Fenced:
		s.fenceEvent(h)
	case migrate.Heard(migrate.Accept):
		if err := s.agreeOn(h.data); err != nil {
			s.blameError(err)
			h.event = migrate.Cancelled
		}
	case migrate.Heard(migrate.Refuse):
		s.blameError(fmt.Errorf("the target refuses the guest: %s", saidBy(h.data)))
	case migrate.Heard(migrate.Aborted):
		s.blameError(fmt.Errorf("the target has given up: %s", saidBy(h.data)))
	case migrate.Disconnected:
		s.blameError(errors.New("the connection with the target has ended"))
	case migrate.QEMUEnded:
		s.blameError(errors.New("QEMU has ended"))
	}
}

func (s *side) blameError(err error) {
	if s.why == nil {
		s.why = err
	}
}

// handleEvent processes an event and carries out the resulting actions. If a required record can't be written,
// handleEvent continues as if the copy had failed, and skips all actions that depend on the record.
func (s *Source) handleEvent(ctx context.Context, h happening) {
	before := s.state
	var actions []migrate.Action
	s.state, actions = s.state.On(h.event)
	if s.state.Stage != before.Stage {
		s.limitStage(ctx)
	}
	s.publishProgress(Progress{Stage: string(s.state.Stage)})
	for _, a := range actions {
		err := s.carryOut(ctx, a)
		if err != nil && a.Do == migrate.Write && (a.Note == migrate.Migrating || a.Note == migrate.Released) {
			s.blameError(err)
			s.state = before
			if before.Stage == migrate.Still {
				return
			}
			h = happening{event: migrate.Failed}
			s.handleEvent(ctx, h)
			return
		}
	}
}

func (s *Source) carryOut(ctx context.Context, a migrate.Action) error {
	switch a.Do {
	case migrate.Write:
		return s.writeRecord(a.Note)
	case migrate.Say:
		switch a.Message {
		case migrate.Offer:
			s.sendMessage(a.Message, s.cfg.Offer)
		case migrate.Go:
			s.sendMessage(a.Message, s.machine.Paused())
			s.expectAnswer()
		default:
			s.sendMessage(a.Message, s.endReason())
		}
	case migrate.Connect:
		s.dialTarget(ctx)
	case migrate.Copy:
		s.copyGuest(ctx)
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
			err = runCommand(limited, s.machine, qmp.Command{
				Execute: "migrate-continue", Arguments: members{"state": "pre-switchover"},
			})
		}
		if err != nil {
			s.raiseLater(ctx, happening{event: migrate.Failed, err: err})
		}
	case migrate.StopCopying:
		s.stopCopying(ctx)
	case migrate.Resume:
		s.resumeGuest(ctx)
	case migrate.Quit:
		s.halt()
		s.copying()
		s.awaitViewers(ctx)
		s.quitQEMU(ctx)
	}
	return nil
}

// resumeGuest lets the guest continue here. While the target still holds the disks, QEMU refuses and resumeGuest
// retries, because the target does not resume the guest.
func (s *Source) resumeGuest(ctx context.Context) {
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

// raiseLater reports an event from the side's own goroutine.
func (s *side) raiseLater(ctx context.Context, h happening) { go s.raiseEvent(ctx, h) }

// dialTarget connects to the target, and retries until it succeeds.
func (s *Source) dialTarget(ctx context.Context) {
	if s.dialing {
		return
	}
	s.dialing = true
	since, offering := time.Now(), s.state.Stage == migrate.Offering
	go func() {
		for {
			c, err := link.Dial(ctx, s.cfg.Keys, "")
			if err == nil {
				s.raiseEvent(ctx, happening{event: migrate.Connected, conn: c})
				return
			}
			if offering && time.Since(since) > offerTime {
				s.raiseEvent(ctx, happening{event: migrate.Cancelled, err: err})
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
