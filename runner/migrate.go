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
	"vmop/runner/launch"
	"vmop/runner/machine"
	"vmop/runner/machine/drive"
	"vmop/runner/machine/reconcile"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/migrate/link"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// heldText is the refusal that users get while the guest is being moved.
const heldText = "the guest is being moved to another runner"

// offer is the source's description of its VM. The target computes its plan from it.
type offer struct {
	prepare.Offer

	Hardware []string         `json:"hardware"`
	CPUs     int              `json:"cpus"`
	Disks    []offeredDisk    `json:"disks,omitempty"` // that can be copied
	Plugged  []reconcile.Slot `json:"plugged,omitempty"`
	Cards    []cardSlot       `json:"cards,omitempty"`
}

// guest implements handover.Machine for a running machine.
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
	ctx context.Context, r control.MigrationRequest, tell func(vmstatus.Progress),
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
	m.driver.Hold(heldText) // prevents further attachments
	defer m.driver.Unhold()
	want, wantCards := m.driver.Wanted(), m.driver.WantedCards()
	slots, err := m.movableSlots(ctx, want)
	if err != nil {
		return err
	}
	offered, err := m.newOffer(ctx, slots, wantCards)
	if err != nil {
		return err
	}
	disks, list, err := m.copyableDisks(ctx, plugsOf(slots, want))
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
		Disks: disks, Socket: m.vm.CopySocket(), Stop: stop, Log: m.log, Tell: m.progressTeller(keys.Address, tell),
		SPICE: m.hasSPICE(),
		Check: func(ctx context.Context) error { return m.hasStillAll(ctx, offered, want, wantCards) },
	})
	lasting := context.WithoutCancel(ctx) // a client that disconnects does not undo a release
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
	return m.moveGuest(lasting, s, migrate.NoRecord)
}

// tellTime is the interval between updates of the amount of sent data in the status.
const tellTime = time.Second

// progressTeller returns a function that publishes the progress of a migration and passes it on to the client.
func (m *run) progressTeller(address string, tell func(vmstatus.Progress)) func(handover.Progress) {
	var published time.Time
	now := status.Migration{Direction: status.Leaving, Address: address}
	return func(p handover.Progress) {
		before := now.Stage
		if p.Stage != "" {
			now.Stage = p.Stage
		} else {
			now.Progress, now.Stage = p, before
		}
		if now.Stage != before || time.Since(published) > tellTime {
			published = time.Now()
			m.publishStatus(status.Moves{Migration: &now})
		}
		tell(now.Progress)
	}
}

// moveGuest moves the guest, or continues a move that an earlier runner began.
func (m *run) moveGuest(ctx context.Context, s *handover.Source, from migrate.Record) error {
	m.source.Store(s)
	defer m.source.Store(nil)
	err := s.Run(ctx, from)
	if err == nil { // the other runner reports the VM's status
		m.log.Info("the guest was moved, and continues in another runner")
		return nil
	}
	m.publishStatus(status.Moves{})
	if ctx.Err() != nil { // the result is unknown
		return err
	}
	text := "the guest stays"
	if errors.Is(err, handover.ErrReclaimed) {
		text = "the guest is lost, and may be started again"
	}
	m.log.Warn(text, "err", err)
	return err
}

// reclaimGuest handles a user's statement that the target of a released guest is gone for good.
func (m *run) reclaimGuest(ctx context.Context) error {
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

// handedOver returns how the migration of a guest ended after its machine has ended. moved reports that the guest
// was moved. reclaimed reports that it was released, and runs nowhere. The note in the data directory records
// both.
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

// movableSlots returns where the disks are plugged that were attached while the guest ran. Its error explains why the
// guest can't be moved.
func (m *run) movableSlots(ctx context.Context, want []reconcile.Drive) ([]reconcile.Slot, error) {
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
	slots, err := m.pluggedSlots(ctx, want)
	return slots, unmovable(err)
}

// unmovable adds to a refusal that the guest can't be moved.
func unmovable(err error) error {
	if refused := control.Refusal(""); errors.As(err, &refused) {
		return control.Refusal("the guest cannot be moved: ") + refused
	}
	return err
}

// hasSPICE reports whether the machine has a SPICE server that can send its clients to another server. In a
// cluster, clients come through the manager or the API server, so the result is false.
func (m *run) hasSPICE() bool {
	d := m.vm.Spec.Display
	return d != nil && d.Spice != nil && m.vm.Config.Resource == ""
}

// tpmEnds returns a channel that is closed when the process that emulates the machine's TPM has ended. A
// restarted process would not have the TPM's state. The channel is nil if the machine has no TPM.
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

// missesWrites reports whether QEMU may miss guest writes while it sends the memory, which happens before version
// 9.0 without KVM. See docs/decisions/0131-migration-stream.md.
func (m *run) missesWrites(ctx context.Context) (bool, error) {
	var kvm struct{ Enabled bool }
	if err := m.driver.Query(ctx, qmp.Command{Execute: "query-kvm"}, &kvm); err != nil {
		return false, err
	}
	major, _, _ := strings.Cut(m.tracker.Status().QEMU.Version, ".")
	n, err := strconv.Atoi(major)
	return !kvm.Enabled && (err != nil || n < 9), nil
}

// newOffer returns the description of the VM for the target.
func (m *run) newOffer(ctx context.Context, plugged []reconcile.Slot, want []reconcile.Card) (o offer, err error) {
	cards, err := m.pluggedCards(ctx, want)
	if err != nil {
		return o, unmovable(err)
	}
	machines, err := prepare.ReadMachines(m.vm.DataDir)
	if err != nil {
		return o, err
	}
	var cpus []struct{} // query-cpus-fast also works on machines without CPU slots
	if err := m.driver.Query(ctx, qmp.Command{Execute: "query-cpus-fast"}, &cpus); err != nil {
		return o, err
	}
	o = offer{
		Offer: prepare.Offer{
			UUID: m.vm.Spec.UUID, VMType: m.vm.Config.VMType, Archive: m.vm.Pin.Archive, Machines: machines,
			GenerationID: m.vm.Host().GenerationID,
		},
		Hardware: slices.Concat(handover.Hardware(m.vm.Plan, machines), pluggedHardware(m.vm.Plan, plugged),
			cardHardware(m.vm.Plan, cards)),
		Plugged: plugged, Cards: cards, CPUs: len(cpus),
	}
	return o, nil
}

// carryOnMoving carries on a machine that was found running. If its guest was being moved, it also brings the
// migration to an end.
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
	m.answerFinished(ctx, guest{m.driver, m})
	return nil
}

// notHere returns an error if the guest runs elsewhere, or may run there.
func (m *run) notHere(ctx context.Context) error {
	note, err := handover.Read(m.vm.DataDir)
	if err != nil {
		return err
	}
	switch note.Record {
	case migrate.Migrating: // the migrating machine was on this side, and has ended
		return handover.Note{}.Write(m.vm.DataDir)
	case migrate.Taken:
		return launch.AcceptTPM(m.vm.DataDir)
	case migrate.Released:
		return m.askTarget(ctx, note)
	case migrate.Moved:
		return movedError(note)
	case migrate.Expecting, migrate.Given:
		return errors.New("the guest has not arrived from the other runner: start the VM there, or, if " +
			"it is certain that it isn't running there: vmrunner reclaim")
	}
	return nil
}

// movedError returns the error for starting a VM after its guest has left.
func movedError(note handover.Note) error {
	return fmt.Errorf("the guest was moved to the runner at %s, and may be running there: a second one here would "+
		"write to the same disks; if it is certain that it is not: vmrunner reclaim", note.Keys.Address)
}

// askTime is how long a runner outside of a pod asks for the guest before it refuses to start the VM. A runner in
// a pod keeps asking, because it would only be restarted to refuse again.
const askTime = 10 * time.Second

// askTarget is used after the guest was released and its machine here has ended. It asks the target until the target,
// or a user, confirms that the guest does not run there. A target with the complete guest resumes it when asked.
func (m *run) askTarget(ctx context.Context, note handover.Note) error {
	if err := m.listenForClients(ctx); err != nil {
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
		return movedError(note)
	}
	return m.notHere(ctx)
}

// ended implements handover.Machine for a machine that has ended.
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

// continueMigration finishes a migration that an earlier runner began. The machine is held in the meantime.
func (m *run) continueMigration(ctx context.Context, note handover.Note, of handover.Machine) {
	m.moving.Lock()
	defer m.moving.Unlock()
	s := handover.NewSource(handover.SourceConfig{
		Machine: of, DataDir: m.vm.DataDir, Keys: note.Keys, Bounds: handover.DefaultBounds(), Log: m.log,
		Tell: m.progressTeller(note.Keys.Address, func(vmstatus.Progress) {}),
	})
	_ = m.moveGuest(ctx, s, note.Record) // move has logged the error
}
