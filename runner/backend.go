package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/runner/status/k8s"
	"vmop/vmtypes/plan"
)

// errAsked is why a VM ends that was told to by its control interface.
var errAsked = errors.New("asked through the control interface")

// backend is the VM as its control interface sees it.
type backend struct{ m *machine }

// Act implements control.Backend.
func (b backend) Act(ctx context.Context, what control.Action, by string) error {
	switch what {
	case control.Kill, control.Stop:
		b.m.end(fmt.Errorf("%w by %s", errAsked, by), what == control.Kill)
		return nil
	case control.Reset:
		if why := b.m.hold.noReset(); why != "" {
			return control.Refusal(why)
		}
		_, err := b.Run(ctx, qmp.Command{Execute: "system_reset"})
		return err
	case control.Pause:
		return b.pause(ctx, true, "stop")
	case control.Resume:
		return b.pause(ctx, false, "cont")
	}
	return nil
}

// pause makes the machine stand still or go on, and notes it.
func (b backend) pause(ctx context.Context, paused bool, command string) error {
	return b.m.hold.inOrder(func() error {
		b.m.notePause(paused)
		_, err := b.Run(ctx, qmp.Command{Execute: command})
		return err
	})
}

// Run implements control.Backend.
func (b backend) Run(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	select {
	case <-b.m.qemu.Done():
		return nil, control.Refusal("QEMU has ended")
	default:
		return b.m.monitor.Run(ctx, c)
	}
}

// Plan implements control.Backend.
func (b backend) Plan() *plan.Plan { return b.m.vm.Plan }

// Dropped implements control.Backend.
func (b backend) Dropped() uint64 { return b.m.monitor.Dropped() }

// serve opens the control interface of a machine whose QEMU answers.
func (m *machine) serve(ctx context.Context) error {
	server, err := control.Start(ctx, control.Options{Dir: m.vm.RuntimeDir, Backend: backend{m}, Tracker: m.tracker, Log: m.log})
	if err != nil {
		return err
	}
	m.server = server
	m.undo.add("control interface", func() error { return server.Close(context.WithoutCancel(ctx)) })
	m.announce()
	return nil
}

// takeConsole takes over the guest's serial console, if it has one.
func (m *machine) takeConsole() error {
	path := m.vm.Plan.Socket(serialConsole)
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("connect to the serial console: %w", err)
	}
	m.undo.add("serial console", func() error { return ignoreClosed(conn.Close()) })
	m.server.Console().Attach(conn)
	return nil
}

// announce makes the VM be found by its name wherever its runtime directory is.
// That is a convenience: what stands in its way must not stop the VM.
func (m *machine) announce() {
	back, err := config.Announce(config.HostEnv(), config.Machine{Name: m.vm.Config.VM.Name, RuntimeDir: m.vm.RuntimeDir})
	if err != nil {
		m.log.Debug("vmrunner ps will not find the VM", "err", err)
		return
	}
	m.undo.add("announcement", back)
}

// serialConsole is the role of the serial console's socket in plans.
const serialConsole = "console"

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// newTracker begins the status of a VM.
func newTracker(vm *VM) *status.Tracker {
	return status.NewTracker(time.Now, status.Described{Name: vm.Config.VM.Name, VMType: vm.Config.VMType})
}

// description is what doesn't change from the start on.
func (m *machine) description(version string) status.Described {
	return status.Described{
		Name: m.vm.Spec.Name, UUID: m.vm.Spec.UUID, VMType: m.vm.Plan.Type, Runner: m.thisRunner(version), Emulated: m.vm.Emulated(),
	}
}

func (m *machine) thisRunner(version string) status.Runner {
	return status.Runner{Version: version, PID: os.Getpid(), Started: time.Now()}
}

// report has the cluster told how the VM is. Whoever calls it has the runner's lock:
// a second runner has nothing to say.
func (m *machine) report(ctx context.Context, opts Options) {
	if opts.Reporter != nil {
		opts.Reporter.Follow(ctx, m.tracker, m.vm.Config.Namespace)
	}
}

// reportFault has the cluster told why there is no VM.
func reportFault(ctx context.Context, reporter *k8s.Reporter, fault error) {
	if reporter != nil {
		reporter.Follow(ctx, status.NewTracker(time.Now, startFailed(fault)), "")
	}
}

// startFailed is the end of a VM that never ran. To be told to stop is no failure.
func startFailed(err error) status.Entered {
	if errors.As(err, new(stoppedError)) {
		return status.Entered{State: status.Stopped, Message: err.Error()}
	}
	return status.Entered{State: status.Stopped, Reason: status.StartFailed, Message: err.Error()}
}

// tellEnd puts the end into the status, before the control interface closes.
func (m *machine) tellEnd(result Outcome, err error) {
	if err != nil {
		m.tell(startFailed(err))
		return
	}
	m.tell(status.Entered{State: status.Stopped}, result.ending())
}

// qemuVersion spells a version as people do: 7.2.22.
func qemuVersion(v qmp.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.QEMU.Major, v.QEMU.Minor, v.QEMU.Micro)
}

// tell updates the status. A change of state that cannot be is a mistake of
// the runner; the log says so.
func (m *machine) tell(updates ...status.Update) {
	if err := m.tracker.Update(updates...); err != nil {
		m.log.Warn("status", "err", err)
	}
}

// ending is the outcome in the status.
func (o Outcome) ending() status.Ended {
	return status.Ended{Cause: o.Cause, Reason: o.Reason, ExitCode: o.ExitCode(), Message: o.String()}
}
