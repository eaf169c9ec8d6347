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
	"vmop/runner/machine"
	"vmop/runner/snapshot"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// errAsked is why a VM ends that was stopped by its control interface.
var errAsked = errors.New("asked through the control interface")

// backend is the VM as its control interface sees it.
type backend struct{ m *run }

// Act implements control.Backend.
func (b backend) Act(ctx context.Context, what control.Action, by string) error {
	if what == control.Reclaim {
		return b.m.reclaim(ctx)
	}
	if !b.m.there.Load() {
		return b.m.actEarly(what, fmt.Errorf("%w by %s", errAsked, by))
	}
	switch what {
	case control.Kill, control.Stop:
		return b.m.end(ctx, fmt.Errorf("%w by %s", errAsked, by), what == control.Kill)
	case control.Reset:
		return refusal(b.m.driver.Reset(ctx))
	case control.Pause:
		return refusal(b.m.driver.Pause(ctx))
	case control.Resume:
		return refusal(b.m.driver.Resume(ctx))
	}
	return nil
}

// end stops the VM, at once or by asking the guest. The next runner knows it, too,
// if this one is killed.
func (m *run) end(ctx context.Context, cause error, atOnce bool) error {
	if err := m.driver.Stop(ctx, cause.Error(), atOnce); err != nil {
		return err
	}
	m.cancel(cause) // whatever else is being done, such as the start
	return nil
}

// Run implements control.Backend.
func (b backend) Run(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	if !b.m.there.Load() {
		return nil, errNotThere
	}
	reply, err := b.m.driver.Command(ctx, c)
	return reply, refusal(err)
}

// Freeze implements control.Freezer.
func (b backend) Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error) {
	if !b.m.there.Load() {
		return status.FreezeAnswer{}, errNotThere
	}
	a, err := b.m.driver.Freeze(ctx, limit)
	return a, refusal(err)
}

// Thaw implements control.Freezer.
func (b backend) Thaw(ctx context.Context) (status.FreezeAnswer, error) {
	if !b.m.there.Load() {
		return status.FreezeAnswer{}, errNotThere
	}
	a, err := b.m.driver.Thaw(ctx)
	return a, refusal(err)
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
	return control.SnapshotAnswer{Name: d.Name, Frozen: d.Frozen, Message: d.Message}, refusal(err)
}

// refusal returns an error as the control interface knows it.
func refusal(err error) error {
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

// errNotThere refuses requests to a machine that isn't there yet.
const errNotThere = control.Refusal("the VM has no machine yet: its disks are being made")

// actEarly carries out the requests of users while there is no machine.
func (m *run) actEarly(what control.Action, cause error) error {
	if what != control.Stop && what != control.Kill {
		return errNotThere
	}
	m.cancel(cause)
	return nil
}

// serve opens the control interface of a machine whose QEMU answers.
func (m *run) serve(ctx context.Context) error {
	if err := m.listen(ctx); err != nil {
		return err
	}
	m.there.Store(true)
	if m.opts.Control != nil && !m.managed {
		m.serveManager(ctx)
	}
	return nil
}

// listen opens the control interface, unless it is open. As long as there is no machine, it shows the status, and
// takes a stop request.
func (m *run) listen(ctx context.Context) error {
	if m.server != nil {
		return nil
	}
	server, err := control.Start(ctx, control.Options{
		Dir: m.vm.RuntimeDir, Backend: backend{m}, Freezer: backend{m}, Snapshotter: backend{m}, Migrator: backend{m},
		Tracker: m.tracker, Log: m.log, Archive: func() []byte { return m.vm.Pin.Archive }, SPICE: m.spice,
		Invitation: m.invited.get, IsNeighbor: netsetup.IsNeighbor, GuestBehind: netsetup.GuestBehind,
		Barred: &m.barred,
	})
	if err != nil {
		return err
	}
	m.server = server
	m.undo.Add("control interface", func() error { return server.Close(context.WithoutCancel(ctx)) })
	m.announce()
	return nil
}

// serveManager lets the manager reach the runner. A fault leaves the VM running, without.
func (m *run) serveManager(ctx context.Context) {
	m.managed = true
	opts := remote.Options{
		Authorities: filepath.Join(filepath.Dir(m.opts.ConfigFile), config.AuthoritiesFile),
		Port:        *m.opts.Control, Log: m.log,
	}
	l, err := remote.Listen(ctx, opts)
	if errors.Is(err, syscall.EADDRINUSE) {
		m.log.Warn("the port for the manager is in use; another one is taken", "err", err)
		opts.Port = 0
		l, err = remote.Listen(ctx, opts)
	}
	if err != nil {
		m.log.Error("the manager cannot reach the runner: no console and no screen in its pages", "err", err)
		return
	}
	m.server.ServeRemote(l)
	m.publish(status.Controlled{Port: l.Port(), Key: l.Key()})
}

// takeConsole takes over the guest's serial console, if it has one.
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

// announce makes the VM be found by its name wherever its runtime directory is.
// That is a convenience: what stands in its way must not stop the VM.
func (m *run) announce() {
	back, err := config.Announce(config.HostEnv(), m.place())
	if err != nil {
		m.log.Debug("vmrunner ps will not find the VM", "err", err)
		return
	}
	m.undo.Add("announcement", back)
}

// place is where the VM is found by its name.
func (m *run) place() config.Machine {
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
