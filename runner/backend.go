package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"vmop/netsetup"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/control/remote"
	"vmop/runner/disks/snapshot"
	"vmop/runner/machine"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// errAsked is the cause of a stop through the control interface.
var errAsked = errors.New("asked through the control interface")

// backend implements the interfaces of package control for a running VM.
type backend struct{ m *run }

// Act implements control.Backend.
func (b backend) Act(ctx context.Context, what control.Action, by string) error {
	if what == control.Reclaim {
		return b.m.reclaimGuest(ctx)
	}
	if !b.m.there.Load() {
		return b.m.actEarly(what, fmt.Errorf("%w by %s", errAsked, by))
	}
	switch what {
	case control.Kill, control.Stop:
		return b.m.endVM(ctx, fmt.Errorf("%w by %s", errAsked, by), what == control.Kill)
	case control.Reset:
		return asRefusal(b.m.driver.Reset(ctx))
	case control.Pause:
		return asRefusal(b.m.driver.Pause(ctx))
	case control.Resume:
		return asRefusal(b.m.driver.Resume(ctx))
	}
	return nil
}

// endVM stops the VM, immediately if atOnce is set and otherwise by asking the guest. The driver records the
// request, so the next runner continues the stop if this runner is killed.
func (m *run) endVM(ctx context.Context, cause error, atOnce bool) error {
	if err := m.driver.Stop(ctx, cause.Error(), atOnce); err != nil {
		return err
	}
	m.cancel(cause) // interrupts other work, such as the start
	return nil
}

// Run implements control.Backend.
func (b backend) Run(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	if !b.m.there.Load() {
		return nil, errNotThere
	}
	reply, err := b.m.driver.Command(ctx, c)
	return reply, asRefusal(err)
}

// Freeze implements control.Freezer.
func (b backend) Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error) {
	if !b.m.there.Load() {
		return status.FreezeAnswer{}, errNotThere
	}
	a, err := b.m.driver.Freeze(ctx, limit)
	return a, asRefusal(err)
}

// Thaw implements control.Freezer.
func (b backend) Thaw(ctx context.Context) (status.FreezeAnswer, error) {
	if !b.m.there.Load() {
		return status.FreezeAnswer{}, errNotThere
	}
	a, err := b.m.driver.Thaw(ctx)
	return a, asRefusal(err)
}

// Snapshot implements control.Snapshotter.
func (b backend) Snapshot(
	ctx context.Context, name string, freeze bool, tell func(control.CopyProgress),
) (control.SnapshotAnswer, error) {
	if !b.m.there.Load() {
		return control.SnapshotAnswer{}, errNotThere
	}
	d, err := b.m.snapshots.Create(ctx, name, freeze, func(p snapshot.Progress) { tell(control.CopyProgress(p)) })
	for _, why := range []error{
		snapshot.ErrBusy, snapshot.ErrExists, snapshot.ErrName, snapshot.ErrAttached,
	} {
		if errors.Is(err, why) {
			err = control.Refusal(err.Error())
		}
	}
	return control.SnapshotAnswer{Name: d.Name, Frozen: d.Frozen, Message: d.Message}, asRefusal(err)
}

// asRefusal converts a machine.Refusal into a control.Refusal and returns other errors unchanged.
func asRefusal(err error) error {
	if why := machine.Refusal(""); errors.As(err, &why) {
		return control.Refusal(why)
	}
	return err
}

// Plan implements control.Backend.
func (b backend) Plan() *plan.Plan { return b.m.vm.Plan }

// Dropped implements control.Backend.
func (b backend) Dropped() uint64 {
	if !b.m.there.Load() {
		return 0
	}
	return b.m.driver.Dropped()
}

// errNotThere refuses requests while the machine does not exist yet.
const errNotThere = control.Refusal("the VM has no machine yet: its disks are being created")

// actEarly handles user requests that arrive before the machine exists. Only stop and kill are accepted.
func (m *run) actEarly(what control.Action, cause error) error {
	if what != control.Stop && what != control.Kill {
		return errNotThere
	}
	m.cancel(cause)
	return nil
}

// serveMachine opens the control interface once QEMU answers.
func (m *run) serveMachine(ctx context.Context) error {
	if err := m.listenForClients(ctx); err != nil {
		return err
	}
	m.there.Store(true)
	if m.opts.Control != nil && !m.managed {
		m.serveManager(ctx)
	}
	return nil
}

// listenForClients opens the control interface unless it is already open. Until the machine exists, the interface only
// shows the status and accepts a stop request.
func (m *run) listenForClients(ctx context.Context) error {
	if m.server != nil {
		return nil
	}
	server, err := control.Start(ctx, control.Options{
		Dir: m.vm.RuntimeDir, Backend: backend{m}, Freezer: backend{m}, Snapshotter: backend{m}, Migrator: backend{m},
		Tracker: m.tracker, Log: m.log, Archive: func() []byte { return m.vm.Pin.Archive }, SPICE: m.spice,
		Devices: m.guestDevices, Forecast: m.forecastChange,
		Invitation: m.invited.getText, IsNeighbor: netsetup.IsNeighbor, GuestBehind: netsetup.GuestBehind,
		Barred: &m.barred,
	})
	if err != nil {
		return err
	}
	m.server = server
	m.undo.Add("control interface", func() error { return server.Close(context.WithoutCancel(ctx)) })
	m.linkName()
	return nil
}

// serveManager lets the manager reach the runner. If that fails, the VM keeps running without the manager.
func (m *run) serveManager(ctx context.Context) {
	m.managed = true
	opts := remote.Options{
		Authorities: filepath.Join(filepath.Dir(m.opts.ConfigFile), config.AuthoritiesFile),
		Port:        *m.opts.Control, Log: m.log,
	}
	l, err := remote.Listen(ctx, opts)
	if errors.Is(err, syscall.EADDRINUSE) {
		m.log.Warn("the port for the manager is in use; another port is used", "err", err)
		opts.Port = 0
		l, err = remote.Listen(ctx, opts)
	}
	if err != nil {
		m.log.Error("the manager cannot reach the runner: no console and no screen in its pages", "err", err)
		return
	}
	m.server.ServeRemote(l)
	m.publishStatus(status.Controlled{Port: l.Port(), Key: l.Key()})
}

// takeConsole connects to the guest's serial console, if it has one.
func (m *run) takeConsole() error {
	path := m.vm.Plan.Socket(serialConsole)
	if path == "" || m.server == nil {
		return nil
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("connect to the serial console: %w", err)
	}
	m.undo.Add("serial console", func() error { return ignoreClosed(conn.Close()) })
	m.server.Console().Attach(conn)
	return nil
}

// linkName allows programs to find the VM by name, independent of its runtime directory. This is a convenience,
// so an error does not stop the VM.
func (m *run) linkName() {
	back, err := config.Announce(config.HostEnv(), m.machinePlace())
	if err != nil {
		m.log.Debug("vmrunner ps will not find the VM", "err", err)
		return
	}
	m.undo.Add("announcement", back)
}

// machinePlace returns the name and runtime directory under which the VM is announced.
func (m *run) machinePlace() config.Machine {
	return config.Machine{Name: m.vm.Config.VM.Name, RuntimeDir: m.vm.RuntimeDir}
}

// serialConsole is the role of the serial console's socket in plans.
const serialConsole = "console"

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
