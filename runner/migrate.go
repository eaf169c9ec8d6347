package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/drive"
	"vmop/runner/handover"
	"vmop/runner/launch"
	"vmop/runner/machine"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
	"vmop/runner/prepare"
	"vmop/runner/reconcile"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// heldText is what users get who want to do something with a guest that is being moved.
const heldText = "the guest is being moved to another runner"

// offer is what a source says about its VM, from which the target makes its plan.
type offer struct {
	prepare.Offer

	Hardware []string         `json:"hardware"`
	CPUs     int              `json:"cpus"`
	Disks    []offeredDisk    `json:"disks,omitempty"` // that can be copied
	Plugged  []reconcile.Slot `json:"plugged,omitempty"`
}

// guest is the machine as a migration sees it.
type guest struct {
	*drive.Driver

	m *run
}

// Continue implements handover.Machine.
func (g guest) Continue(ctx context.Context, paused bool) error {
	var state struct{ Status string }
	if err := g.Query(ctx, qmp.Command{Execute: "query-status"}, &state); err != nil {
		return err
	}
	if paused || state.Status == "running" {
		g.Unhold()
		return nil
	}
	return g.Driver.Continue(ctx)
}

// Words implements handover.Machine.
func (g guest) Words() string { return g.m.processes.QEMU.Tail() }

// Quit implements handover.Machine.
func (g guest) Quit(ctx context.Context) error {
	_, err := g.Command(ctx, qmp.Command{Execute: "quit"})
	select {
	case <-g.Done():
		return nil
	case <-ctx.Done():
		return errors.Join(err, context.Cause(ctx))
	}
}

// Migrate implements control.Migrator.
func (b backend) Migrate(
	ctx context.Context, r control.MigrationRequest, tell func(control.MigrationProgress),
) error {
	m := b.m
	var keys link.Keys
	if err := json.Unmarshal(r.Invitation, &keys); err != nil {
		return control.Refusal("read the invitation of the target: " + err.Error())
	}
	if !m.there.Load() {
		return errNotThere
	}
	if !m.moving.TryLock() {
		return control.Refusal("the guest is being moved already")
	}
	defer m.moving.Unlock()
	m.driver.Hold(heldText) // nothing is attached any more
	defer m.driver.Unhold()
	want := m.driver.Wanted()
	slots, err := m.movable(ctx, want)
	if err != nil {
		return err
	}
	offered, err := m.offer(ctx, slots)
	if err != nil {
		return err
	}
	disks, list, err := m.copyable(ctx, plugsOf(slots, want))
	if err != nil {
		return err
	}
	offered.Disks = list
	stop, err := m.missesWrites(ctx)
	if err != nil {
		return err
	}
	m.log.Info("migrating", "target", keys.Address)
	bounds := handover.Bounds{
		Downtime: cmp.Or(r.Downtime, handover.DefaultBounds().Downtime), Bandwidth: r.Bandwidth,
	}
	s := handover.NewSource(handover.SourceConfig{
		Machine: guest{m.driver, m}, DataDir: m.vm.DataDir, Keys: keys, Offer: offered, Bounds: bounds,
		Disks: disks, Socket: m.vm.CopySocket(), Stop: stop, Log: m.log, Tell: m.teller(keys.Address, tell),
		SPICE: m.hasSPICE(),
		Check: func(ctx context.Context) error { return m.hasStill(ctx, slots, want) },
	})
	lasting := context.WithoutCancel(ctx) // a release is not undone by a client that has disconnected
	defer context.AfterFunc(ctx, func() { s.Cancel(lasting, errors.New("the migration was cancelled")) })()
	defer context.AfterFunc(m.ctx, func() { s.Cancel(lasting, errors.New("the VM is being stopped")) })()
	moved := make(chan struct{})
	defer close(moved)
	go func() {
		select {
		case <-m.tpmEnds():
			s.Cancel(lasting, errors.New("its TPM is lost"))
		case <-moved:
		}
	}()
	return m.move(lasting, s, migrate.NoRecord)
}

// tellTime is how often the status says how much was sent.
const tellTime = time.Second

// teller publishes how far a migration is, and passes it on to the client.
func (m *run) teller(address string, tell func(control.MigrationProgress)) func(handover.Progress) {
	var published time.Time
	now := status.Migration{Direction: status.Leaving, Address: address}
	return func(p handover.Progress) {
		before := now.Stage
		if p.Stage != "" {
			now.Stage = string(p.Stage)
		} else {
			now.Transferred, now.Remaining, now.Total, now.Throttle = p.Transferred, p.Remaining, p.Total, p.Throttle
			now.DiskCopied, now.DiskTotal = p.DiskCopied, p.DiskTotal
		}
		if now.Stage != before || time.Since(published) > tellTime {
			published = time.Now()
			m.publish(status.Moves{Migration: &now})
		}
		tell(control.MigrationProgress{
			Stage: now.Stage, Transferred: now.Transferred, Remaining: now.Remaining, Total: now.Total,
			Throttle: now.Throttle, DiskCopied: now.DiskCopied, DiskTotal: now.DiskTotal,
		})
	}
}

// move moves the guest, or continues what an earlier runner has begun.
func (m *run) move(ctx context.Context, s *handover.Source, from migrate.Record) error {
	m.source.Store(s)
	defer m.source.Store(nil)
	err := s.Run(ctx, from)
	if err == nil { // the other runner speaks for the VM
		m.log.Info("the guest was moved, and continues in another runner")
		return nil
	}
	m.publish(status.Moves{})
	if ctx.Err() != nil { // it is not known
		return err
	}
	text := "the guest stays"
	if errors.Is(err, handover.ErrReclaimed) {
		text = "the guest is lost, and may be started anew"
	}
	m.log.Warn(text, "err", err)
	return err
}

// reclaim takes in that the target to which the guest was released is gone for good.
func (m *run) reclaim(ctx context.Context) error {
	s := m.source.Load()
	if s == nil {
		return control.Refusal(handover.ErrNotReleased.Error())
	}
	m.reclaims.Store(true) // before QEMU ends
	err := s.Fence(ctx)
	if err != nil && ctx.Err() == nil {
		m.reclaims.Store(false)
		err = control.Refusal(err.Error())
	}
	return err
}

// handedOver reports whether the guest, whose machine has ended, was moved, or was released and runs nowhere; then that
// is recorded.
func (m *run) handedOver() (moved, reclaimed bool) {
	if m.reclaims.Load() {
		m.moving.Lock()
		defer m.moving.Unlock()
	}
	note, err := handover.Read(m.vm.DataDir)
	if err != nil {
		m.log.Warn("it is not known whether the guest was moved", "err", err)
		return false, false
	}
	return note.Record == migrate.Moved, note.Record == migrate.NoRecord && m.reclaims.Load()
}

// movable returns where the disks are that were attached to the guest while it ran, or why it can't be moved.
func (m *run) movable(ctx context.Context, want []reconcile.Drive) ([]reconcile.Slot, error) {
	const what = control.Refusal("the guest cannot be moved: ")
	switch state := m.tracker.Status().State; state {
	case vmstatus.StateBooting, vmstatus.StateRunning, vmstatus.StateBooted:
	default:
		return nil, what + control.Refusal("the VM is in the state "+string(state))
	}
	select {
	case <-m.tpmEnds():
		return nil, what + "its TPM is lost; stop the VM and start it again"
	default:
	}
	slots, err := m.slots(ctx, want)
	if refused := control.Refusal(""); errors.As(err, &refused) {
		err = what + refused
	}
	return slots, err
}

// hasSPICE reports whether the machine has a server of SPICE whose clients can go to another one. In a cluster they
// come by way of the manager, or of the API server.
func (m *run) hasSPICE() bool {
	d := m.vm.Spec.Display
	return d != nil && d.Spice != nil && m.vm.Config.Resource == ""
}

// tpmEnds is closed when the process has ended that emulates the machine's TPM: another one in its place has nothing of
// it. It is nil if the machine has none.
func (m *run) tpmEnds() <-chan struct{} {
	name := m.vm.Plan.Helper(plan.RoleTPM)
	if name == "" {
		return nil
	}
	for _, h := range m.processes.Helpers {
		if h.Name() == name {
			return h.Done()
		}
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// missesWrites reports whether QEMU may miss what the guest writes while its memory is sent: QEMU before 9.0 does
// without KVM. See docs/decisions/0131-migration-stream.md.
func (m *run) missesWrites(ctx context.Context) (bool, error) {
	var kvm struct{ Enabled bool }
	if err := m.driver.Query(ctx, qmp.Command{Execute: "query-kvm"}, &kvm); err != nil {
		return false, err
	}
	major, _, _ := strings.Cut(m.tracker.Status().QEMU.Version, ".")
	n, err := strconv.Atoi(major)
	return !kvm.Enabled && (err != nil || n < 9), nil
}

// offer is what the target needs to know.
func (m *run) offer(ctx context.Context, plugged []reconcile.Slot) (o offer, err error) {
	machines, err := prepare.ReadMachines(m.vm.DataDir)
	if err != nil {
		return o, err
	}
	var cpus []struct{} // of machines without places for CPUs, too
	if err := m.driver.Query(ctx, qmp.Command{Execute: "query-cpus-fast"}, &cpus); err != nil {
		return o, err
	}
	o = offer{
		Offer: prepare.Offer{
			UUID: m.vm.Spec.UUID, VMType: m.vm.Config.VMType, Archive: m.vm.Pin.Archive, Machines: machines,
		},
		Hardware: slices.Concat(handover.Hardware(m.vm.Plan, machines), pluggedHardware(m.vm.Plan, plugged)),
		Plugged:  plugged, CPUs: len(cpus),
	}
	return o, nil
}

// carryOnMoving carries on a machine that was found running. If its guest was being moved, that is ended, in one way or
// the other.
func (m *run) carryOnMoving(ctx context.Context) error {
	note, err := handover.Read(m.vm.DataDir)
	if err != nil {
		return err
	}
	if note.OfSource() {
		m.held = heldText
	}
	if err := m.carryOn(ctx); err != nil {
		return err
	}
	if note.OfSource() {
		go m.continueMigration(context.WithoutCancel(ctx), note, guest{m.driver, m})
	}
	m.took(ctx, guest{m.driver, m})
	return nil
}

// notHere refuses to start a VM whose guest runs elsewhere, or may.
func (m *run) notHere(ctx context.Context) error {
	note, err := handover.Read(m.vm.DataDir)
	if err != nil {
		return err
	}
	switch note.Record {
	case migrate.Migrating: // it was this side's, and has ended
		return handover.Note{}.Write(m.vm.DataDir)
	case migrate.Taken:
		return launch.AcceptTPM(m.vm.DataDir)
	case migrate.Released:
		return m.query(ctx, note)
	case migrate.Moved:
		return moved(note)
	case migrate.Expecting, migrate.Given:
		return errors.New("the guest was to come from another runner, and has not: it is there; start the VM there, or, if " +
			"it is certain that it isn't running there: vmrunner reclaim")
	}
	return nil
}

// moved is why a VM is not started whose guest has left.
func moved(note handover.Note) error {
	return fmt.Errorf("the guest was moved to the runner at %s, and may be running there: a second one here would "+
		"write to the same disks; if it is certain that it is not: vmrunner reclaim", note.Keys.Address)
}

// askTime is how long a runner that isn't in a pod asks for a guest before it refuses to start the VM. A pod has no use
// for a runner that refuses again and again.
const askTime = 10 * time.Second

// query asks the target to which a guest was released whose machine has ended here, until the answer, or a user, says
// that the guest isn't there. A target that has all of it resumes it then.
func (m *run) query(ctx context.Context, note handover.Note) error {
	if err := m.listen(ctx); err != nil {
		return err
	}
	if m.opts.Control != nil && !m.managed {
		m.serveManager(ctx)
	}
	m.log.Warn("the guest was released to another runner, and its machine has ended here: asking whether it runs there",
		"target", note.Keys.Address)
	asking, cancel := ctx, func() {}
	if m.opts.Reporter == nil {
		asking, cancel = context.WithTimeout(ctx, askTime)
	}
	defer cancel()
	m.continueMigration(asking, note, ended{})
	m.reclaims.Store(false)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now, err := handover.Read(m.vm.DataDir)
	switch {
	case err != nil:
		return err
	case now.Record == migrate.Released:
		return moved(note)
	}
	return m.notHere(ctx)
}

// ended is a machine that has ended.
type ended struct{}

func (ended) Command(context.Context, qmp.Command) (json.RawMessage, error) {
	return nil, machine.ErrExited
}
func (ended) Continue(context.Context, bool) error { return machine.ErrExited }
func (ended) Paused() bool                         { return false }
func (ended) Quit(context.Context) error           { return nil }
func (ended) Happened() <-chan struct{}            { return nil }
func (ended) Words() string                        { return "" }

func (ended) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// continueMigration ends, in one way or the other, what an earlier runner has begun. The machine is held.
func (m *run) continueMigration(ctx context.Context, note handover.Note, of handover.Machine) {
	m.moving.Lock()
	defer m.moving.Unlock()
	s := handover.NewSource(handover.SourceConfig{
		Machine: of, DataDir: m.vm.DataDir, Keys: note.Keys, Bounds: handover.DefaultBounds(), Log: m.log,
		Tell: m.teller(note.Keys.Address, func(control.MigrationProgress) {}),
	})
	_ = m.move(ctx, s, note.Record) // it is logged
}
