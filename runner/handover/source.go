package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// copy begins to copy the guest, and brings how far that is as events: the disks while it runs and then, with all in
// step, its memory.
func (s *Source) copy(ctx context.Context) {
	lasting, end := context.WithCancel(ctx)
	disks, cut := context.WithCancel(lasting)
	working, stop := context.WithCancel(lasting)
	ended := make(chan struct{})
	s.copying, s.cut, s.halt = end, cut, func() { stop(); <-ended }
	go func() {
		defer close(ended)
		c := &convergence{bounds: s.cfg.Bounds}
		err := s.copyDisks(working, disks)
		if err == nil {
			err = s.sendMemory(working, lasting, c)
		}
		if err != nil {
			s.fails(working, err)
			return
		}
		s.follow(working, c)
	}()
}

// fails brings that QEMU doesn't send the guest. The target may say why in a moment, in which the guest runs, or stays
// paused if it is for its memory: what comes first counts.
func (s *Source) fails(ctx context.Context, err error) {
	select {
	case <-ctx.Done():
	case <-time.After(wordTime):
		s.happens(ctx, happening{event: migrate.Failed, err: err})
	}
}

// sendMemory has QEMU begin to send the guest's memory. The stream lasts as long as lasting.
func (s *Source) sendMemory(ctx, lasting context.Context, c *convergence) error {
	limited, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	stream, err := link.Dial(limited, s.cfg.Keys, streamName)
	if err != nil {
		return err
	}
	ours, theirs, err := link.Pair()
	if err != nil {
		return errors.Join(err, stream.Close())
	}
	defer theirs.Close() // QEMU has its own
	go func() {
		if err := link.Carry(lasting, stream, ours); err != nil && lasting.Err() == nil {
			s.log.Debug("migration: the stream has ended", "err", err)
		}
	}()
	list := []qmp.Command{capabilities(), parameters(s.cfg.Bounds, c.first())}
	if s.cfg.Stop {
		list = append(list, qmp.Command{Execute: "stop"})
	}
	for _, c := range list {
		if err := command(limited, s.machine, c); err != nil {
			return err
		}
	}
	s.directViewers(limited)
	return hand(limited, s.machine, theirs, "migrate")
}

// follow brings what QEMU does as events, until it has sent everything or has given up.
func (s *Source) follow(ctx context.Context, c *convergence) {
	switching, stalled := false, stall{limit: 2 * s.cfg.Silence}
	for {
		info, err := query(ctx, s.machine)
		if err != nil {
			s.happens(ctx, happening{event: migrate.Failed, err: err})
			return
		}
		s.far.Transferred, s.far.Remaining, s.far.Total = info.RAM.Transferred, info.RAM.Remaining, info.RAM.Total
		s.far.Throttle = info.Throttle
		s.publish(s.far)
		switch info.Status {
		case "pre-switchover":
			if !switching {
				s.happens(ctx, happening{event: migrate.AtSwitch})
			}
			switching = true
		case "completed":
			s.happens(ctx, happening{event: migrate.Copied})
			return
		case "failed", "cancelled":
			s.fails(ctx, failure(info))
			return
		case "active":
			err := stalled.next(info.RAM.Transferred, time.Now())
			if err == nil {
				err = s.fallenBehind(ctx)
			}
			if err != nil {
				s.happens(ctx, happening{event: migrate.Failed, err: err})
				return
			}
		}
		downtime, giveUp := c.next(info)
		if giveUp != nil {
			s.happens(ctx, happening{event: migrate.Cancelled, err: giveUp})
			return
		}
		if downtime != 0 {
			if err := command(ctx, s.machine, setDowntime(downtime)); err != nil {
				s.log.Warn("migration: the guest's pause stays as short as it is", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.machine.Happened():
		case <-time.After(pollTime):
		}
	}
}

func failure(info Migration) error {
	if info.Error == "" {
		return fmt.Errorf("QEMU has ended the migration (%s)", info.Status)
	}
	return fmt.Errorf("QEMU cannot send the guest: %s", info.Error)
}

// stopCopying returns when QEMU doesn't copy any more: only then it is known whether it has resumed the guest.
func (s *Source) stopCopying(ctx context.Context) {
	defer s.copying()
	s.halt()
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	defer time.AfterFunc(cutTime, s.cut).Stop() // QEMU doesn't wait for a target that doesn't answer
	err := s.dropCopies(ctx)
	s.cut()
	if err != nil {
		s.log.Warn("migration: the copies of disks have not ended", "err", err)
	}
	if err := s.endMigration(ctx); err != nil {
		s.log.Warn("migration: it is not known whether QEMU has ended the copy", "err", err)
	}
}

// endMigration has QEMU end the migration of the memory. From the switch on it only loses its stream; see
// docs/decisions/0168-the-switch-is-not-cancelled.md.
func (s *Source) endMigration(ctx context.Context) error {
	if s.switched {
		s.copying()
	}
	for asked := false; ; {
		info, err := query(ctx, s.machine)
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{"", "none", "completed", "failed", "cancelled"}, info.Status):
			return nil
		case !asked && !s.switched && info.Status != "device":
			if err := command(ctx, s.machine, qmp.Command{Execute: "migrate_cancel"}); err != nil {
				return err
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(endPause):
		}
	}
}
