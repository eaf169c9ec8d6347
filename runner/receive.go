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

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/runner/launch"
	"vmop/runner/launch/cleanup"
	"vmop/runner/machine"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/migrate/link"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// Receive configures a runner that waits for the guest of another runner.
type Receive struct {
	// Address is the listen address, HOST:PORT, where the source's runner connects. Port 0 means any free port.
	Address string
	// Invitation is the path of a file with link.Keys as JSON, which the source needs. The runner writes it when
	// it listens, and removes it when the migration is decided. It contains a key. A cluster's manager reads the
	// invitation through the control interface instead.
	Invitation string
	// Migration is the name of the migration. A restarted runner that has already received the guest of this
	// migration does not wait for another guest. "" means a migration without a name.
	Migration string
	// CopyDisks enables the copying of block devices and of disks without an image here.
	CopyDisks bool
	// TrustSource accepts a VM type in another version than this side's. The resulting plans are limited to what
	// this side's own version does.
	TrustSource bool
	// Copies are the paths of images and block devices that are known to differ from the source's. Disks are
	// copied to them even without CopyDisks.
	Copies []string
}

// An invitation is what the source of a guest needs. It is valid for one migration.
type invitation struct {
	text atomic.Pointer[json.RawMessage]
}

func (i *invitation) setText(text json.RawMessage) { i.text.Store(&text) }

func (i *invitation) getText() json.RawMessage {
	if text := i.text.Load(); text != nil {
		return *text
	}
	return nil
}

// receiver is a run that waits for the guest of another runner.
type receiver struct {
	*run

	keys     link.Keys
	left     *handover.Note // of a guest that left from here before; nil: none has left
	listener *link.Listener
	begun    *launch.Launch
	plugs    []plug // disks that were attached while the guest ran
}

// receiveGuest waits for the guest of another runner, and returns when the guest runs here.
func (m *run) receiveGuest(ctx context.Context) error {
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
	if err := r.listenForSource(ctx, note.Record); err != nil {
		return err
	}
	if note.Whole {
		m.log.Warn("the disks of a guest that has not arrived are complete here, and stay until its source reports that it has " +
			"the guest; if the source is gone for good: vmrunner reclaim")
	}
	t := handover.NewTarget(handover.TargetConfig{
		DataDir: m.vm.DataDir, Keys: r.keys, Listener: r.listener, Left: left, Compare: r.compareOffer,
		Start:  r.startMachine,
		Screen: r.screenAddress,
		Images: note.Images, Whole: note.Whole, Socket: m.vm.CopySocket(), Take: r.writeRecords,
		Migration: m.opts.Receive.Migration, Patience: handover.DefaultPatience, Log: m.log, Tell: r.publishStage,
	})
	following := context.WithoutCancel(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		m.answerSource(following, t, note.Record, nil, r.listener)
	}()
	defer context.AfterFunc(ctx, func() { t.Cancel(following, stoppedError{context.Cause(ctx)}) })()
	err = <-t.Decided()
	m.invited.setText(nil)
	if gone := cleanup.Remove(m.opts.Receive.Invitation); gone != nil {
		m.log.Warn("the invitation is not removed", "err", gone)
	}
	if err != nil {
		<-answered // a source that has released the guest still asks for it
		return fmt.Errorf("receive the guest: %w", err)
	}
	m.publishStatus(status.Moves{})
	m.log.Info("the guest was received, and continues here", "state", "Booting")
	m.cpus = 0
	m.driver.Configured(machine.Reading{Wish: m.machineConfig().Wish})
	return cleanup.RemoveSecrets(m.vm)
}

// isOver reports whether a note belongs to an earlier migration: its guest has left for good, or the cluster's
// manager knows that the migration failed.
func (m *run) isOver(n handover.Note) bool {
	switch n.Record {
	case migrate.Moved:
		return true
	case migrate.Expecting, migrate.Given:
		return m.opts.Receive.Migration != n.Migration
	}
	return false
}

// isToCome returns the status of a runner that waits for a guest. The other runner still reports the VM's status.
func isToCome() status.Moves {
	waiting := vmstatus.Progress{Stage: vmstatus.ArrivalWaiting}
	return status.Moves{Migration: &status.Migration{Direction: status.Arriving, Progress: waiting}}
}

// isReceiving reports whether this runner must wait for a guest instead of starting one. It returns false if an
// earlier runner has already received the guest.
func (m *run) isReceiving() (bool, error) {
	if m.opts.Receive == nil {
		return false, nil
	}
	received, err := m.hasReceived()
	if !received || err != nil {
		m.publishStatus(isToCome())
	}
	return !received, err
}

// hasReceived reports whether an earlier runner has received the guest of this migration.
func (m *run) hasReceived() (bool, error) {
	if m.opts.Receive.Migration == "" {
		return false, nil
	}
	text, err := readfile.ReadFile(filepath.Join(m.vm.DataDir, prepare.ReceivedFile), prepare.LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find out whether the guest has been received: %w", err)
	}
	return string(text) == m.opts.Receive.Migration, nil
}

// answerSource receives a guest, and answers the source until the source knows the result.
func (m *run) answerSource(
	ctx context.Context, t *handover.Target, from migrate.Record, left handover.Machine, l *link.Listener,
) {
	if err := t.Run(ctx, from, left); err != nil {
		m.log.Warn("the source of the guest is not answered any more", "err", err)
	}
	_ = l.Close()
}

// listenForSource starts to listen. If an earlier runner was killed, listen uses its keys.
func (r *receiver) listenForSource(ctx context.Context, before migrate.Record) (err error) {
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
		r.invited.setText(text)
		err = atomicfile.Write(r.opts.Receive.Invitation, append(text, '\n'), 0o600, atomicfile.Volatile)
		if err != nil {
			return err
		}
		r.undo.Add("invitation", func() error { return cleanup.Remove(r.opts.Receive.Invitation) })
	}
	if err := r.run.listenForClients(ctx); err != nil {
		return err
	}
	if r.opts.Control != nil {
		r.serveManager(ctx)
	}
	r.log.Info("waiting for a guest", "address", r.keys.Address, "invitation", r.opts.Receive.Invitation)
	return nil
}

// publishStage publishes the progress of the migration.
func (r *receiver) publishStage(p handover.Progress) {
	if p.Stage != string(migrate.Running) {
		r.publishStatus(status.Moves{Migration: &status.Migration{
			Direction: status.Arriving, Address: r.keys.Address, Progress: p,
		}})
	}
}

// compareOffer computes the plan for the guest of another runner, and returns the disks to copy. It returns an error
// if the guest would get other hardware or other disks.
func (r *receiver) compareOffer(ctx context.Context, text json.RawMessage) ([]handover.Image, error) {
	var o offer
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("read the source's offer: %w", err)
	}
	vm := r.vm
	for _, s := range o.Plugged {
		vm.Plugged = append(vm.Plugged, s.Serial)
	}
	r.setCards(o.Cards)
	if err := vm.CompleteAs(ctx, r.opts.Options, o.Offer, r.opts.Receive.TrustSource); err != nil {
		return nil, err
	}
	cards, err := r.ownCards(o.Cards)
	if err != nil {
		return nil, err
	}
	own := slices.Concat(handover.Hardware(vm.Plan, o.Machines), pluggedHardware(vm.Plan, o.Plugged),
		cardHardware(vm.Plan, cards))
	if err := handover.Differences(o.Hardware, own); err != nil {
		return nil, err
	}
	if err := r.findPlugs(ctx, o.Plugged); err != nil {
		return nil, err
	}
	if err := r.noOtherTPM(); err != nil {
		return nil, err
	}
	images, err := r.chooseCopies(o)
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

// screenAddress returns the address where SPICE clients will reach this machine, or nil if the source's clients can't
// reach it.
func (r *receiver) screenAddress() *handover.Screen {
	reached, _, err := net.SplitHostPort(r.keys.Address) // as the source sees it
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

// isEvery reports whether an address means all addresses of the computer.
func isEvery(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// noOtherTPM returns an error if the data directory contains the state of a TPM and there may be no other copy.
// If the guest left from here before, the state here is older than the incoming state, and not an error.
func (r *receiver) noOtherTPM() error {
	state, err := launch.TPMState(r.vm)
	if err == nil && state != "" && r.left == nil {
		err = fmt.Errorf("%s is the state of a TPM, and the guest brings its own: move it away, or take another data directory",
			state)
	}
	return err
}

// isLocked reports whether a QEMU has an image open. QEMU's locks are on the bytes from 100 (RAW_LOCK_PERM_BASE).
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

// startMachine starts the machine, which then waits for the guest.
func (r *receiver) startMachine(ctx context.Context) (handover.Machine, error) {
	m := r.run
	m.publishStatus(status.Entered{State: vmstatus.StateStarting}, m.describeVM())
	m.log.Info("starting", "state", "Starting", "vmType", m.vm.Plan.Type, "uuid", m.vm.Spec.UUID)
	r.begun.Incoming = true
	var err error
	if m.processes, err = r.begun.Start(ctx); err != nil {
		return nil, err
	}
	if err := m.settleMachine(ctx); err != nil {
		return nil, err
	}
	if err := r.plugIn(ctx); err != nil {
		return nil, err
	}
	return arriving{guest{m.driver, m}, r.begun}, nil
}

// writeRecords saves what the next runner needs.
func (r *receiver) writeRecords() error {
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
		if err := atomicfile.Write(path, []byte(name), 0o600, atomicfile.Synced); err != nil {
			return err
		}
	}
	return r.writeRecord()
}

// arriving implements handover.Machine for a guest that has not run here yet.
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

// answerFinished answers the source of a guest that an earlier runner has received. The guest's machine may have ended
// since.
func (m *run) answerFinished(ctx context.Context, left handover.Machine) {
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
	go m.answerSource(ctx, t, note.Record, left, l)
}
