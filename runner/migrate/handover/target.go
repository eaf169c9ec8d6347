package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"vmop/qmp"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
)

// DefaultPatience is how long a target waits for a source that has disappeared.
const DefaultPatience = 30 * time.Second

// alone is the event that the source has not returned in time.
const alone migrate.Event = "alone"

// TargetConfig configures a Target. All fields are required except Left, Migration, Screen and those about disks.
type TargetConfig struct {
	// DataDir is the VM's data directory, which contains the note.
	DataDir  string
	Keys     link.Keys
	Listener *link.Listener
	// Left is the note of a guest that left from here earlier.
	Left *Note
	// Migration is the migration's name in the note; may be empty.
	Migration string
	// Images and Whole are from the note of an earlier runner.
	Images []Image
	Whole  bool
	// Socket is the path of a socket that is created if disks are copied.
	Socket string
	// Compare returns the disks that must be copied, or why an offer can't be accepted.
	Compare func(ctx context.Context, offer json.RawMessage) ([]Image, error)
	// Screen returns the address where SPICE clients reach the compared machine, or nil if they can't. It may be
	// nil.
	Screen func() *Screen
	// Start starts the compared machine's QEMU with -S and -incoming defer.
	Start func(ctx context.Context) (Machine, error)
	// Take records the machine for the next runner, before its guest is resumed.
	Take func() error
	// Patience is how long the target waits for a source that has disappeared. A source that has released the
	// guest keeps asking.
	Patience time.Duration
	Log      *slog.Logger
	// Tell is called when the stage may have changed.
	Tell func(Progress)
}

// A Target receives a guest.
type Target struct {
	*side
	cfg   TargetConfig
	state migrate.Target

	decided  chan error
	known    bool // decided has its value
	offer    json.RawMessage
	ending   context.CancelFunc // ends the goroutines that prepare and receive
	starting chan struct{}      // closed when no QEMU is being started
	streams  chan *link.Conn
	started  chan Machine
	loaded   bool               // Loaded was sent
	paused   bool               // by a user
	back     context.CancelFunc // ends the wait for a source that has disappeared
}

// NewTarget returns a target; call Run to use it.
func NewTarget(cfg TargetConfig) *Target {
	t := &Target{
		side: newSide(nil, cfg.DataDir, Note{
			Keys: cfg.Keys, Left: cfg.Left, Migration: cfg.Migration, Images: cfg.Images, Whole: cfg.Whole,
		}, cfg.Log, cfg.Tell),
		cfg:     cfg,
		decided: make(chan error, 1),
		streams: make(chan *link.Conn), started: make(chan Machine, 1), starting: make(chan struct{}),
		ending: func() {}, back: func() {},
	}
	close(t.starting)
	return t
}

// Decided returns a channel that receives nil when this side has resumed the guest, or the reason why it never
// will.
func (t *Target) Decided() <-chan error { return t.decided }

// Cancel gives up the migration for the given reason, unless this side already owns the guest.
func (t *Target) Cancel(ctx context.Context, why error) {
	t.raiseEvent(ctx, happening{event: migrate.Cancelled, err: why})
}

// Fenced reports that everything of the source has ended for good.
func (t *Target) Fenced(ctx context.Context) { t.raiseEvent(ctx, happening{event: migrate.Fenced}) }

// Run receives the guest, or continues the recorded migration of an earlier runner. In that case machine is the
// machine that the earlier runner has left, or nil. Run answers the source until the source knows the result.
func (t *Target) Run(ctx context.Context, from migrate.Record, machine Machine) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer t.dropConnection()
	defer t.stopPublishing()
	defer func() {
		cancel()
		<-t.starting
	}()
	t.state, t.last, t.note.Record, t.machine = migrate.TargetOf(from), from, from, machine
	go t.acceptConnections(ctx)
	if machine != nil {
		t.watchQEMU(ctx)
	}
	if from != migrate.NoRecord {
		t.loaded = true // it may have been sent
		t.handleEvent(ctx, happening{event: migrate.Restarted})
		t.awaitSource(ctx)
	}
	for !t.isOver() {
		h, err := t.nextEvent(ctx)
		if err != nil {
			return err
		}
		t.understandEvent(ctx, &h)
		t.handleEvent(ctx, h)
	}
	return nil
}

// isOver reports whether the source has no more questions.
func (t *Target) isOver() bool {
	switch t.state.Stage {
	case migrate.Running:
		return t.last == migrate.NoRecord
	case migrate.Refused:
		if !t.loaded && t.last != migrate.NoRecord { // it can't have been released
			_ = t.writeRecord(migrate.NoRecord)
		}
		return t.last == migrate.NoRecord
	}
	return false
}

// acceptConnections reports connections as events, and passes streams to the goroutines that wait for them.
func (t *Target) acceptConnections(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-t.cfg.Listener.Accepted():
			switch c.Stream {
			case "":
				t.raiseEvent(ctx, happening{event: migrate.Connected, conn: c})
			case streamName:
				select {
				case t.streams <- c:
				case <-ctx.Done():
					_ = c.Close()
				case <-time.After(replyTime): // no goroutine waits for it
					_ = c.Close()
				}
			case diskStream:
				go t.carryDisk(ctx, c)
			default:
				_ = c.Close()
			}
		}
	}
}

// understandEvent processes the data of an event.
func (t *Target) understandEvent(ctx context.Context, h *happening) {
	t.log.Debug("migration: event", "event", string(h.event), "err", h.err)
	switch h.event {
	case migrate.Connected:
		t.back()
		t.useConnection(ctx, h.conn)
	case migrate.Heard(migrate.Offer):
		t.offer = h.data
	case migrate.Complete:
		t.note.Whole = len(t.note.Images) > 0 && t.state.Stage == migrate.Receiving
	case migrate.Heard(migrate.Abort):
		t.note.Whole = false // the source has the guest
		t.blameError(fmt.Errorf("the source keeps the guest: %s", saidBy(h.data)))
	case migrate.Heard(migrate.Go):
		_ = json.Unmarshal(h.data, &t.paused) // a source that sends no value has not paused the guest
	case migrate.Listens:
		select {
		case t.machine = <-t.started:
			t.watchQEMU(ctx)
		default: // it was given up in the meantime
		}
	case migrate.Disconnected:
		t.awaitSource(ctx)
	case alone:
		t.blameError(errors.New("the connection with the source has ended"))
		h.event = migrate.Cancelled
		if t.state.Stage == migrate.Refused && !t.note.Whole { // a source that has released the guest would have asked
			_ = t.writeRecord(migrate.NoRecord)
		}
	case migrate.QEMUEnded:
		t.blameError(lastWords(t.machine.Words()))
	}
}

// handleEvent processes an event and carries out the resulting actions.
func (t *Target) handleEvent(ctx context.Context, h happening) {
	before := t.state
	var actions []migrate.Action
	t.state, actions = t.state.On(h.event)
	t.publishProgress(Progress{Stage: string(t.state.Stage)})
	for _, a := range actions {
		err := t.carryOut(ctx, a)
		if err != nil && a.Do == migrate.Write && (a.Note == migrate.Expecting || a.Note == migrate.Taken) {
			t.blameError(err)
			t.state = before
			t.handleEvent(ctx, happening{event: migrate.Cancelled})
			return
		}
	}
	t.announceDecision()
}

// awaitSource reports the event alone if the source does not return in time.
func (t *Target) awaitSource(ctx context.Context) {
	t.back()
	ctx, t.back = context.WithCancel(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(t.cfg.Patience):
			t.raiseEvent(ctx, happening{event: alone})
		}
	}()
}

// announceDecision sends the result to decided, once.
func (t *Target) announceDecision() {
	switch {
	case t.known:
	case t.state.Stage == migrate.Running:
		t.known = true
		t.decided <- nil
		t.settleImages(true)
	case t.state.Stage == migrate.Refused:
		t.known = true
		t.blameError(errors.New("the migration was interrupted"))
		t.decided <- t.why
	}
}

// writeRecord records the state of the migration. When it removes the record, it also removes images that do not belong
// to the VM.
func (t *Target) writeRecord(r migrate.Record) error {
	if r == migrate.NoRecord {
		t.settleImages(t.last == migrate.Taken)
	}
	return t.side.writeRecord(r)
}

func (t *Target) carryOut(ctx context.Context, a migrate.Action) error {
	switch a.Do {
	case migrate.Write:
		if a.Note == migrate.Taken {
			if err := t.cfg.Take(); err != nil {
				return err
			}
		}
		return t.writeRecord(a.Note)
	case migrate.Say:
		t.loaded = t.loaded || a.Message == migrate.Loaded
		if a.Message == migrate.Accept {
			t.sendMessage(a.Message, t.acceptedParts())
			return nil
		}
		t.sendMessage(a.Message, t.endReason())
	case migrate.Compare:
		h := happening{event: migrate.Suits}
		images, err := t.cfg.Compare(ctx, t.offer)
		if err != nil {
			h = happening{event: migrate.Differs, err: err}
		}
		t.note.Images = images
		t.raiseLater(ctx, h)
	case migrate.Receive:
		t.receiveGuest(ctx)
	case migrate.Resume:
		t.raiseLater(ctx, t.resumeGuest(ctx))
	case migrate.Quit:
		t.ending()
		<-t.starting
		select {
		case m := <-t.started:
			t.machine = m
		default:
		}
		t.quitQEMU(ctx)
		if !t.note.Whole { // otherwise the source may be gone for good, with its disks
			t.settleImages(false)
		}
	}
	return nil
}

// resumeGuest lets the guest continue here.
func (t *Target) resumeGuest(ctx context.Context) happening {
	select {
	case <-t.machine.Done():
		return happening{event: migrate.NotResumed, err: errors.New("QEMU has ended")}
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	err := t.machine.Continue(ctx, t.paused)
	if refused := new(qmp.Error); errors.As(err, &refused) || errors.Is(err, ErrNotResumed) {
		return happening{event: migrate.NotResumed, err: err}
	}
	if err != nil {
		t.log.Error("migration: it is not known whether the guest was resumed", "err", err)
	}
	return happening{event: migrate.Continues}
}

// receiveGuest starts QEMU, and reports the progress as events.
func (t *Target) receiveGuest(ctx context.Context) {
	ctx, t.ending = context.WithCancel(ctx)
	t.starting = make(chan struct{})
	go func() {
		m, comes, err := t.prepareMachine(ctx)
		close(t.starting)
		if err != nil {
			t.raiseEvent(ctx, happening{event: migrate.Cancelled, err: err})
			return
		}
		t.raiseEvent(ctx, happening{event: migrate.Listens})
		t.followQEMU(ctx, m, comes)
	}()
}

// prepareMachine returns a QEMU that waits for the guest. comes is closed when the guest's memory starts to arrive.
func (t *Target) prepareMachine(ctx context.Context) (m Machine, comes <-chan struct{}, err error) {
	if err := t.makeImages(ctx); err != nil {
		return nil, nil, err
	}
	if m, err = t.cfg.Start(ctx); err != nil {
		return nil, nil, err
	}
	t.started <- m
	ours, theirs, err := link.Pair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close() // QEMU has its own descriptor
	limited, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	if err = t.exportImages(limited, m); err == nil {
		err = runCommand(limited, m, capabilitiesCommand())
	}
	if err == nil {
		err = handStream(limited, m, theirs, "migrate-incoming")
	}
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	coming := make(chan struct{})
	go func() {
		select {
		case c := <-t.streams:
			close(coming)
			if err := link.Carry(ctx, c, ours); err != nil && ctx.Err() == nil {
				t.log.Debug("migration: the stream has ended", "err", err)
			}
		case <-ctx.Done():
			_ = ours.Close()
		}
	}()
	return m, coming, nil
}

// followQEMU waits until QEMU has the complete guest. A QEMU that can't load the guest exits by itself.
func (t *Target) followQEMU(ctx context.Context, m Machine, comes <-chan struct{}) {
	select {
	case <-comes:
	case <-ctx.Done():
		return
	case <-m.Done():
		return
	}
	for {
		info, err := queryMigration(ctx, m)
		switch {
		case err != nil:
			return
		case info.Status == "completed":
			h := happening{event: migrate.Complete}
			if err := t.endExport(ctx, m); err != nil {
				h = happening{event: migrate.Cancelled, err: fmt.Errorf("keep the copied disks: %w", err)}
			}
			t.raiseEvent(ctx, h)
			return
		case info.Status == "failed":
			err := fmt.Errorf("QEMU cannot load the guest: %s", info.Error)
			t.raiseEvent(ctx, happening{event: migrate.Cancelled, err: err})
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-m.Done():
			return
		case <-m.Happened():
		case <-time.After(pollTime):
		}
	}
}
