package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vmop/durable"
	"vmop/regular"
	"vmop/runner/cleanup"
	"vmop/runner/handover"
	"vmop/runner/launch"
	"vmop/runner/machine"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// Receive has a runner wait for the guest of another one.
type Receive struct {
	// Address is where it listens, HOST:PORT; the source's runner reaches it there. Port 0 is any that is free.
	Address string
	// Invitation is the path of a file that is written when it listens, and removed in the end: link.Keys as JSON,
	// which the source needs. It has a key. The manager of a cluster asks for it by the control interface.
	Invitation string
	// Migration is the name of the migration. A runner with one that has received its guest, and is started again,
	// doesn't wait for another. "": the migration has none.
	Migration string
	// CopyDisks has disks copied whose images are not here, and those that are block devices.
	CopyDisks bool
	// TrustSource accepts another version of the VM type than this side has. Its plans are limited to what this side's
	// own version does.
	TrustSource bool
	// Copies are the paths of images and block devices to which disks are copied that are certainly other ones than the
	// source's, with CopyDisks or without it.
	Copies []string
}

// An invitation is what the source of a guest needs; it is good for one migration.
type invitation struct {
	text atomic.Pointer[json.RawMessage]
}

func (i *invitation) set(text json.RawMessage) { i.text.Store(&text) }

func (i *invitation) get() json.RawMessage {
	if text := i.text.Load(); text != nil {
		return *text
	}
	return nil
}

// receiver is a run whose guest comes from another runner.
type receiver struct {
	*run

	keys     link.Keys
	left     *handover.Note // of a guest that has left from here before; nil: there was none
	listener *link.Listener
	begun    *launch.Launch
	plugs    []plug // disks that the guest had attached while it ran
}

// receive waits for the guest of another runner, up to the point where it runs here.
func (m *run) receive(ctx context.Context) error {
	note, err := handover.Read(m.vm.DataDir)
	if err != nil {
		return err
	}
	left := note.Away()
	if m.isOver(note) {
		note = handover.Note{}
	}
	if note.Record == migrate.Taken || note.OfSource() {
		return fmt.Errorf("the VM with its data in %s has a guest, or had one that may have left: no other can come; if it is "+
			"certain that it isn't running: vmrunner reclaim", m.vm.DataDir)
	}
	r := &receiver{run: m, keys: note.Keys, left: left}
	if err := r.listen(ctx, note.Record); err != nil {
		return err
	}
	if note.Whole {
		m.log.Warn("the disks of a guest that has not come are here as a whole, and stay until its source says that it has " +
			"the guest; if the source is gone for good: vmrunner reclaim")
	}
	t := handover.NewTarget(handover.TargetConfig{
		DataDir: m.vm.DataDir, Keys: r.keys, Listener: r.listener, Left: left, Compare: r.compare, Start: r.start,
		Screen: r.screen,
		Images: note.Images, Whole: note.Whole, Socket: m.vm.CopySocket(), Take: r.record,
		Migration: m.opts.Receive.Migration, Patience: handover.DefaultPatience, Log: m.log, Tell: r.publishStage,
	})
	following := context.WithoutCancel(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		m.answer(following, t, note.Record, nil, r.listener)
	}()
	defer context.AfterFunc(ctx, func() { t.Cancel(following, stoppedError{context.Cause(ctx)}) })()
	err = <-t.Decided()
	m.invited.set(nil)
	if gone := cleanup.Remove(m.opts.Receive.Invitation); gone != nil {
		m.log.Warn("the invitation is not removed", "err", gone)
	}
	if err != nil {
		<-answered // a source that has released the guest asks for it
		return fmt.Errorf("receive the guest: %w", err)
	}
	m.publish(status.Moves{})
	m.log.Info("the guest was received, and continues here", "state", "Booting")
	m.cpus = 0
	m.driver.Configured(machine.Reading{Wish: m.machineConfig().Wish})
	return cleanup.RemoveSecrets(m.vm)
}

// isOver reports whether a note is about a migration that has nothing to do with the one that is to come: its guest has
// left for good, or it was to come by an earlier one, of which the cluster's manager knows that it has failed.
func (m *run) isOver(n handover.Note) bool {
	switch n.Record {
	case migrate.Moved:
		return true
	case migrate.Expecting, migrate.Given:
		return m.opts.Receive.Migration != n.Migration
	}
	return false
}

// isToCome is that a guest is another runner's, for which this one doesn't speak yet.
func isToCome() status.Moves {
	return status.Moves{Migration: &status.Migration{Direction: status.Arriving, Stage: vmstatus.ArrivalWaiting}}
}

// receives reports whether a guest is to come, and not to be started: an earlier runner may have received it.
func (m *run) receives() (bool, error) {
	if m.opts.Receive == nil {
		return false, nil
	}
	received, err := m.hasReceived()
	if !received || err != nil {
		m.publish(isToCome())
	}
	return !received, err
}

// hasReceived reports whether an earlier runner has received the guest that this one is to receive.
func (m *run) hasReceived() (bool, error) {
	if m.opts.Receive.Migration == "" {
		return false, nil
	}
	text, err := regular.ReadFile(filepath.Join(m.vm.DataDir, prepare.ReceivedFile), prepare.LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether the guest has been received: %w", err)
	}
	return string(text) == m.opts.Receive.Migration, nil
}

// answer receives a guest, and answers the source until that knows what has become of it.
func (m *run) answer(
	ctx context.Context, t *handover.Target, from migrate.Record, left handover.Machine, l *link.Listener,
) {
	if err := t.Run(ctx, from, left); err != nil {
		m.log.Warn("the source of the guest is not answered any more", "err", err)
	}
	_ = l.Close()
}

// listen begins to listen, by the keys of an earlier runner that was killed, if there was one.
func (r *receiver) listen(ctx context.Context, before migrate.Record) (err error) {
	if r.begun, err = launch.Begin(r.vm, r.lock, r.undo, r.log); err != nil {
		return err
	}
	var source link.Keys
	if before == migrate.NoRecord {
		if r.keys, source, err = link.NewKeys(r.opts.Receive.Address, time.Now()); err != nil {
			return err
		}
	}
	if r.listener, err = link.Listen(ctx, r.keys, r.log); err != nil {
		return fmt.Errorf("listen for the source of the guest: %w", err)
	}
	r.undo.Add("listener of the migration", func() error {
		_ = r.listener.Close() // it may be closed already
		return nil
	})
	r.keys.Address, source.Address = r.listener.Address(), r.listener.Address()
	if before == migrate.NoRecord {
		text, err := json.Marshal(source)
		if err != nil {
			return err
		}
		r.invited.set(text)
		if err := durable.Write(r.opts.Receive.Invitation, append(text, '\n'), 0o600, durable.Volatile); err != nil {
			return err
		}
		r.undo.Add("invitation", func() error { return cleanup.Remove(r.opts.Receive.Invitation) })
	}
	if err := r.run.listen(ctx); err != nil {
		return err
	}
	if r.opts.Control != nil {
		r.serveManager(ctx)
	}
	r.log.Info("waiting for a guest", "address", r.keys.Address, "invitation", r.opts.Receive.Invitation)
	return nil
}

// publishStage publishes how far the migration is.
func (r *receiver) publishStage(p handover.Progress) {
	if p.Stage != migrate.Running {
		r.publish(status.Moves{Migration: &status.Migration{
			Direction: status.Arriving, Address: r.keys.Address, Stage: string(p.Stage),
		}})
	}
}

// compare makes the plan for the guest of another runner, and returns the disks that are copied, or an error if the
// guest would have other hardware, or other disks.
func (r *receiver) compare(ctx context.Context, text json.RawMessage) ([]handover.Image, error) {
	var o offer
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("read the source's offer: %w", err)
	}
	vm := r.vm
	for _, s := range o.Plugged {
		vm.Plugged = append(vm.Plugged, s.Serial)
	}
	if err := vm.CompleteAs(ctx, r.opts.Options, o.Offer, r.opts.Receive.TrustSource); err != nil {
		return nil, err
	}
	own := slices.Concat(handover.Hardware(vm.Plan, o.Machines), pluggedHardware(vm.Plan, o.Plugged))
	if err := handover.Differences(o.Hardware, own); err != nil {
		return nil, err
	}
	if err := r.findPlugs(o.Plugged); err != nil {
		return nil, err
	}
	if err := r.noOtherTPM(); err != nil {
		return nil, err
	}
	images, err := r.images(o)
	if err != nil {
		return nil, err
	}
	coming := make([]string, 0, len(images))
	for _, i := range images {
		coming = append(coming, i.Path)
	}
	if err := vm.Config.Locate(vm.MissingFiles(coming...)); err != nil {
		return nil, err
	}
	r.cpus = o.CPUs
	return images, nil
}

// screen returns where clients of SPICE reach the machine that is to be; nil if those of the source can't.
func (r *receiver) screen() *handover.Screen {
	reached, _, err := net.SplitHostPort(r.keys.Address) // by the source
	if err != nil || !r.hasSPICE() {
		return nil
	}
	at := r.vm.Spec.Display.Spice
	host := at.Address
	if isEvery(host) {
		host = reached
	}
	if isEvery(host) || vmspec.IsLoopback(host) && !vmspec.IsLoopback(reached) {
		return nil
	}
	return &handover.Screen{Host: host, Port: at.Port}
}

// isEvery reports whether an address stands for all of the computer.
func isEvery(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// noOtherTPM returns an error if the state of a TPM is here that may be the only one. That of a guest that has left is
// older than the one that comes.
func (r *receiver) noOtherTPM() error {
	state, err := launch.TPMState(r.vm)
	if err == nil && state != "" && r.left == nil {
		err = fmt.Errorf("%s is the state of a TPM, and the guest brings its own: move it away, or take another data directory",
			state)
	}
	return err
}

// isLocked reports whether a QEMU has an image open. Its locks are on bytes from 100 on (RAW_LOCK_PERM_BASE).
func isLocked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err == nil, err
	}
	const base, count = 100, 64
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: base, Len: count}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, fmt.Errorf("query the locks of %s: %w", path, err)
	}
	return lock.Type != unix.F_UNLCK, nil
}

// start starts the machine, which waits for the guest.
func (r *receiver) start(ctx context.Context) (handover.Machine, error) {
	m := r.run
	m.publish(status.Entered{State: vmstatus.StateStarting}, m.description())
	m.log.Info("starting", "state", "Starting", "vmType", m.vm.Plan.Type, "uuid", m.vm.Spec.UUID)
	r.begun.Incoming = true
	var err error
	if m.processes, err = r.begun.Start(ctx); err != nil {
		return nil, err
	}
	if err := m.settle(ctx); err != nil {
		return nil, err
	}
	if err := r.plugIn(ctx); err != nil {
		return nil, err
	}
	return arriving{guest{m.driver, m}, r.begun}, nil
}

// record keeps what the next runner needs.
func (r *receiver) record() error {
	select {
	case <-r.tpmEnds():
		return errors.New("the process of its TPM has ended")
	default:
	}
	if err := r.processes.Sync(); err != nil {
		return err
	}
	if err := r.vm.KeepAll(); err != nil {
		return err
	}
	if name := r.opts.Receive.Migration; name != "" {
		path := filepath.Join(r.vm.DataDir, prepare.ReceivedFile)
		if err := durable.Write(path, []byte(name), 0o600, durable.Synced); err != nil {
			return err
		}
	}
	return r.remember()
}

// arriving is a guest that hasn't run here yet.
type arriving struct {
	guest

	begun *launch.Launch
}

// Continue implements handover.Machine.
func (a arriving) Continue(ctx context.Context, paused bool) error {
	m := a.m
	if err := a.begun.AcceptTPM(); err != nil {
		return fmt.Errorf("%w: take over the state of the TPM: %w", handover.ErrNotResumed, err)
	}
	booting := machine.Booting{Began: m.began, Resource: m.vm.Config.Resource, Paused: paused}
	err := m.driver.Release(ctx, booting, m.server.Event)
	if refused := machine.Refusal(""); errors.As(err, &refused) && refused != machine.ErrExited {
		err = fmt.Errorf("%w: %w", handover.ErrNotResumed, err)
	}
	return err
}

// took answers the source of a guest that an earlier runner has received, whose machine may have ended since.
func (m *run) took(ctx context.Context, left handover.Machine) {
	note, err := handover.Read(m.vm.DataDir)
	if err != nil || note.Record != migrate.Taken {
		return
	}
	if err := launch.AcceptTPM(m.vm.DataDir); err != nil {
		m.log.Error("take over the state of the TPM", "err", err)
		return
	}
	ctx = context.WithoutCancel(ctx)
	l, err := link.Listen(ctx, note.Keys, m.log)
	if err != nil {
		m.log.Warn("the source of the guest cannot ask whether it is running here", "err", err)
		return
	}
	m.undo.Add("listener of the migration", func() error {
		_ = l.Close() // it may be closed already
		return nil
	})
	t := handover.NewTarget(handover.TargetConfig{
		DataDir: m.vm.DataDir, Keys: note.Keys, Listener: l, Migration: note.Migration,
		Images: note.Images, Socket: m.vm.CopySocket(), Patience: handover.DefaultPatience, Log: m.log,
		Compare: func(context.Context, json.RawMessage) ([]handover.Image, error) {
			return nil, errors.New("the guest is here already")
		},
		Tell: func(handover.Progress) {},
	})
	go m.answer(ctx, t, note.Record, left, l)
}
