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

// DefaultPatience is how long a target waits for a source that has vanished.
const DefaultPatience = 30 * time.Second

// alone is the event that the source has not come back in time.
const alone migrate.Event = "alone"

// TargetConfig is what the side needs that gets the guest. All but Left, Migration and what is about disks are
// required.
type TargetConfig struct {
	// DataDir is the VM's, where the note is.
	DataDir  string
	Keys     link.Keys
	Listener *link.Listener
	// Left is the note of a guest that has left from here before.
	Left *Note
	// Migration is its name in the note; it may be empty.
	Migration string
	// Images and Whole are those of the note that an earlier runner has left.
	Images []Image
	Whole  bool
	// Socket is the path of a socket that is made if disks are copied.
	Socket string
	// Compare returns the disks that are to be copied, or why an offer can't be accepted.
	Compare func(ctx context.Context, offer json.RawMessage) ([]Image, error)
	// Screen returns where clients of SPICE reach the machine, which was compared; nil if they can't. It may be nil.
	Screen func() *Screen
	// Start starts QEMU with -S and -incoming defer, as it was compared.
	Start func(ctx context.Context) (Machine, error)
	// Take makes sure that the next runner finds the machine, whose guest is about to be resumed.
	Take func() error
	// Patience is how long it waits for a source that has vanished. A source that has released the guest asks again
	// and again.
	Patience time.Duration
	Log      *slog.Logger
	// Tell is called when the stage may have changed.
	Tell func(Progress)
}

// A Target gets a guest.
type Target struct {
	*side
	cfg   TargetConfig
	state migrate.Target

	decided  chan error
	known    bool // decided has the answer
	offer    json.RawMessage
	ending   context.CancelFunc // of the goroutines that prepare and receive
	starting chan struct{}      // closed when no QEMU is being started
	streams  chan *link.Conn
	started  chan Machine
	loaded   bool               // it was said
	paused   bool               // by a user
	back     context.CancelFunc // of the wait for a source that has vanished
}

// NewTarget returns a target, for Run.
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

// Decided gets nil when the guest is this side's, and was resumed, or why it never will be.
func (t *Target) Decided() <-chan error { return t.decided }

// Cancel gives up the migration, if the guest isn't this side's yet, for a reason.
func (t *Target) Cancel(ctx context.Context, why error) {
	t.happens(ctx, happening{event: migrate.Cancelled, err: why})
}

// Fenced takes in that nothing of the source runs any more, nor ever will.
func (t *Target) Fenced(ctx context.Context) { t.happens(ctx, happening{event: migrate.Fenced}) }

// Run receives the guest, or continues a migration of an earlier runner, of which there is a record; then
// machine is what that runner has left, or nil. It answers the source until that knows the answer.
func (t *Target) Run(ctx context.Context, from migrate.Record, machine Machine) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer t.disconnect()
	defer t.hush()
	defer func() {
		cancel()
		<-t.starting
	}()
	t.state, t.last, t.note.Record, t.machine = migrate.TargetOf(from), from, from, machine
	go t.accept(ctx)
	if machine != nil {
		t.watch(ctx)
	}
	if from != migrate.NoRecord {
		t.loaded = true // it may have been said
		t.on(ctx, happening{event: migrate.Restarted})
		t.wait(ctx)
	}
	for !t.over() {
		h, err := t.next(ctx)
		if err != nil {
			return err
		}
		t.understand(ctx, &h)
		t.on(ctx, h)
	}
	return nil
}

// over reports whether the source has nothing to ask any more.
func (t *Target) over() bool {
	switch t.state.Stage {
	case migrate.Running:
		return t.last == migrate.NoRecord
	case migrate.Refused:
		if !t.loaded && t.last != migrate.NoRecord { // it can't have been released
			_ = t.write(migrate.NoRecord)
		}
		return t.last == migrate.NoRecord
	}
	return false
}

// accept brings connections as events, and streams to who waits for them.
func (t *Target) accept(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-t.cfg.Listener.Accepted():
			switch c.Stream {
			case "":
				t.happens(ctx, happening{event: migrate.Connected, conn: c})
			case streamName:
				select {
				case t.streams <- c:
				case <-ctx.Done():
					_ = c.Close()
				case <-time.After(replyTime): // nothing waits for it
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

// understand takes in what comes with an event.
func (t *Target) understand(ctx context.Context, h *happening) {
	t.log.Debug("migration: event", "event", string(h.event), "err", h.err)
	switch h.event {
	case migrate.Connected:
		t.back()
		t.connect(ctx, h.conn)
	case migrate.Heard(migrate.Offer):
		t.offer = h.data
	case migrate.Complete:
		t.note.Whole = len(t.note.Images) > 0 && t.state.Stage == migrate.Receiving
	case migrate.Heard(migrate.Abort):
		t.note.Whole = false // the source has them
		t.blame(fmt.Errorf("the source keeps the guest: %s", saidBy(h.data)))
	case migrate.Heard(migrate.Go):
		_ = json.Unmarshal(h.data, &t.paused) // whoever says nothing has not paused it
	case migrate.Listens:
		select {
		case t.machine = <-t.started:
			t.watch(ctx)
		default: // it was given up meanwhile
		}
	case migrate.Disconnected:
		t.wait(ctx)
	case alone:
		t.blame(errors.New("the connection with the source has ended"))
		h.event = migrate.Cancelled
		if t.state.Stage == migrate.Refused && !t.note.Whole { // a source that has released the guest would have asked
			_ = t.write(migrate.NoRecord)
		}
	case migrate.QEMUEnded:
		t.blame(lastWords(t.machine.Words()))
	}
}

// on takes in an event, and carries out what follows.
func (t *Target) on(ctx context.Context, h happening) {
	before := t.state
	var actions []migrate.Action
	t.state, actions = t.state.On(h.event)
	t.publish(Progress{Stage: t.state.Stage})
	for _, a := range actions {
		err := t.carryOut(ctx, a)
		if err != nil && a.Do == migrate.Write && (a.Note == migrate.Expecting || a.Note == migrate.Taken) {
			t.blame(err)
			t.state = before
			t.on(ctx, happening{event: migrate.Cancelled})
			return
		}
	}
	t.decide()
}

// wait brings the event that the source has not come back.
func (t *Target) wait(ctx context.Context) {
	t.back()
	ctx, t.back = context.WithCancel(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(t.cfg.Patience):
			t.happens(ctx, happening{event: alone})
		}
	}()
}

// decide says how it has ended, once.
func (t *Target) decide() {
	switch {
	case t.known:
	case t.state.Stage == migrate.Running:
		t.known = true
		t.decided <- nil
		t.settleImages(true)
	case t.state.Stage == migrate.Refused:
		t.known = true
		t.blame(errors.New("the migration was interrupted"))
		t.decided <- t.why
	}
}

// write records how far the migration is. What is forgotten leaves no image that isn't the VM's own.
func (t *Target) write(r migrate.Record) error {
	if r == migrate.NoRecord {
		t.settleImages(t.last == migrate.Taken)
	}
	return t.side.write(r)
}

func (t *Target) carryOut(ctx context.Context, a migrate.Action) error {
	switch a.Do {
	case migrate.Write:
		if a.Note == migrate.Taken {
			if err := t.cfg.Take(); err != nil {
				return err
			}
		}
		return t.write(a.Note)
	case migrate.Say:
		t.loaded = t.loaded || a.Message == migrate.Loaded
		if a.Message == migrate.Accept {
			t.send(a.Message, t.accepts())
			return nil
		}
		t.send(a.Message, t.reason())
	case migrate.Compare:
		h := happening{event: migrate.Suits}
		images, err := t.cfg.Compare(ctx, t.offer)
		if err != nil {
			h = happening{event: migrate.Differs, err: err}
		}
		t.note.Images = images
		t.later(ctx, h)
	case migrate.Receive:
		t.receive(ctx)
	case migrate.Resume:
		t.later(ctx, t.resume(ctx))
	case migrate.Quit:
		t.ending()
		<-t.starting
		select {
		case m := <-t.started:
			t.machine = m
		default:
		}
		t.quit(ctx)
		if !t.note.Whole { // else the source may be gone for good, with its disks
			t.settleImages(false)
		}
	}
	return nil
}

// resume has the guest continue here.
func (t *Target) resume(ctx context.Context) happening {
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

// receive starts QEMU, and brings how far it is as events.
func (t *Target) receive(ctx context.Context) {
	ctx, t.ending = context.WithCancel(ctx)
	t.starting = make(chan struct{})
	go func() {
		m, comes, err := t.prepare(ctx)
		close(t.starting)
		if err != nil {
			t.happens(ctx, happening{event: migrate.Cancelled, err: err})
			return
		}
		t.happens(ctx, happening{event: migrate.Listens})
		t.follow(ctx, m, comes)
	}()
}

// prepare returns a QEMU that waits for the guest. comes is closed when its memory comes.
func (t *Target) prepare(ctx context.Context) (m Machine, comes <-chan struct{}, err error) {
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
	defer theirs.Close() // QEMU has its own
	limited, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	if err = t.export(limited, m); err == nil {
		err = command(limited, m, capabilities())
	}
	if err == nil {
		err = hand(limited, m, theirs, "migrate-incoming")
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

// follow waits until QEMU has all of the guest. One that can't load it ends by itself.
func (t *Target) follow(ctx context.Context, m Machine, comes <-chan struct{}) {
	select {
	case <-comes:
	case <-ctx.Done():
		return
	case <-m.Done():
		return
	}
	for {
		info, err := query(ctx, m)
		switch {
		case err != nil:
			return
		case info.Status == "completed":
			h := happening{event: migrate.Complete}
			if err := t.endExport(ctx, m); err != nil {
				h = happening{event: migrate.Cancelled, err: fmt.Errorf("keep the disks that were copied: %w", err)}
			}
			t.happens(ctx, h)
			return
		case info.Status == "failed":
			err := fmt.Errorf("QEMU cannot load the guest: %s", info.Error)
			t.happens(ctx, happening{event: migrate.Cancelled, err: err})
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
