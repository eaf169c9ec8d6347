package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/runner/adopt/record"
	"vmop/runner/config/follow"
	"vmop/runner/control"
	"vmop/runner/disks/snapshot"
	"vmop/runner/guest/agents"
	"vmop/runner/launch"
	"vmop/runner/launch/cleanup"
	"vmop/runner/machine"
	"vmop/runner/machine/drive"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// Timeouts of the steps of a start.
const (
	bootTime  = 60 * time.Second // from QEMU's start until the guest runs
	replyTime = 10 * time.Second // for one reply of a running QEMU
)

// driveMachine starts the driver. From now on only the driver communicates with QEMU. first is the session with a newly
// started QEMU; nil means that the machine was found running.
func (m *run) driveMachine(ctx context.Context, first *qmp.Session) {
	cfg := drive.Config{
		Machine: m.machineConfig(), Monitor: filepath.Join(m.vm.RuntimeDir, prepare.MonitorSocket), Session: first,
		QEMU: m.processes.QEMU, StartHelper: m.startHelper,
		Tracker: m.tracker, Log: m.log, Save: m.saveProgress, SinceBoot: sinceBoot, Alive: m.service.Alive(),
		Reach: m.vm.Reach, Cards: m.cards,
	}
	if first != nil {
		start := m.vm.Beginning()
		start.Arriving = m.cpus > 0
		cfg.Machine.Start = &start
	}
	m.barred.Add(m.processes.QEMU.Pid())
	for _, h := range m.processes.Helpers {
		m.barred.Add(h.Pid())
		cfg.Helpers = append(cfg.Helpers, h)
	}
	paths := map[string]string{}
	for _, role := range agents.Roles() {
		paths[role] = m.vm.Plan.Socket(role)
	}
	m.agents = agents.New(context.WithoutCancel(ctx), agents.Config{
		Paths: paths, Log: m.log, Do: func(f func()) { m.driver.Do(f) }, Publish: m.publishStatus,
		State: func() vmstatus.State { return m.tracker.Status().State },
	})
	cfg.Agents = m.agents
	m.driver = drive.New(ctx, cfg)
	m.snapshots = &snapshot.Live{VM: m.vm, Machine: m.driver, Log: m.log}
	m.outcome = make(chan machine.Outcome, 1)
	go func() { m.outcome <- m.driver.Run(ctx) }()
	m.undo.Add("driver", func() error {
		err := m.driver.Close()
		<-m.driver.Done()
		return err
	})
}

// startHelper restarts a helper for the driver. The driver calls it from a separate goroutine.
func (m *run) startHelper(ctx context.Context, name, socket string) (drive.Process, *os.File, error) {
	p, conn, err := launch.Again(ctx, m.vm, m.lock, name, socket, m.log)
	if err != nil {
		return nil, nil, err
	}
	m.barred.Add(p.Pid())
	if socket == "" {
		// Without this record the next runner would start the helper again. A helper with a socket (the network)
		// is not worth recording.
		if err := record.Restarted(m.vm, name, p.ID()); err != nil {
			m.log.Warn("the record of the machine names a process that has ended", "process", name, "err", err)
		}
	}
	return p, conn, nil
}

// machineConfig returns the driver's configuration of the machine.
func (m *run) machineConfig() machine.Config {
	vm := m.vm
	cfg := machine.Config{
		Plan: vm.Plan, Wish: follow.Wish(m.wanted, vm, lookUpAddresses()), Progress: m.progress,
		PID:    m.processes.QEMU.Pid(),
		Agents: agents.Roles(), GuestAgent: agents.GuestRole, Viewer: viewerName, Known: m.knownViewer,
		CPUs: vm.Spec.CurrentCPUs,
		RAM:  int64(vm.Spec.MaximumRAM), Protected: vm.Protected, Grace: m.opts.GracePeriod, Misplaced: vm.Misplaced,
		Held: m.held,
	}
	if m.cpus > 0 {
		cfg.Wish.Desired.CPUs, cfg.Wish.Desired.RAM = m.cpus, 0
	}
	for _, h := range m.processes.Helpers {
		cfg.Running = append(cfg.Running, h.Name())
	}
	return cfg
}

// viewerName returns the display name of a viewer.
func viewerName(name string) string {
	if who, ok := control.VNCClient(name); ok {
		return who
	}
	return name
}

// knownViewer reports whether the control interface publishes a viewer.
func (m *run) knownViewer(name string) bool { return control.IsScreenClient(name) || m.spice.Has(name) }

// bootGuest waits until the paused machine has the wanted configuration, and then lets the guest run.
func (m *run) bootGuest(ctx context.Context) error {
	if err := m.settleMachine(ctx); err != nil {
		return err
	}
	if err := m.writeRecord(); err != nil {
		return err
	}
	m.keepDirectories()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(m.opts.BootTime, bootTime))
	defer cancel()
	booting := machine.Booting{Began: m.began, Resource: m.vm.Config.Resource}
	if err := m.driver.Release(ctx, booting, m.server.Event); err != nil {
		return m.processes.Blame(ctx, m.vm, fmt.Errorf("let the guest run: %w", err))
	}
	return cleanup.RemoveSecrets(m.vm)
}

// settleMachine waits until the paused machine has the wanted configuration.
func (m *run) settleMachine(ctx context.Context) error {
	if err := m.keepCards(ctx, false); err != nil {
		return err
	}
	m.driveMachine(m.ctx, m.processes.Monitor)
	limit := cmp.Or(m.opts.BootTime, bootTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("QEMU did not answer within %s%s", limit,
		m.processes.Suspects()))
	defer cancel()
	// Work that does not need QEMU is done while QEMU initializes. See docs/decisions/0081-start-cost.md.
	if err := record.WriteType(m.vm); err != nil {
		return err
	}
	if err := m.driver.Save(ctx); err != nil { // from now on each change is saved
		return m.processes.Blame(ctx, m.vm, err)
	}
	if err := m.driver.Settle(ctx); err != nil {
		return m.processes.Blame(ctx, m.vm, err)
	}
	m.memory = childprocess.MemoryGroupOf(m.processes.QEMU.Pid()) // a program that wraps QEMU may have changed it
	if err := m.plugCards(ctx); err != nil {
		return m.processes.Blame(ctx, m.vm, err)
	}
	if err := m.serveMachine(ctx); err != nil {
		return err
	}
	m.publishStatus(status.Confined{Confinement: m.vm.Held})
	if err := m.takeConsole(); err != nil {
		return err
	}
	if m.opts.OnPaused != nil {
		if err := m.opts.OnPaused(ctx, m.vm); err != nil {
			return err
		}
	}
	return m.processes.Sync()
}

// writeRecord writes the record. From now on another runner adopts the machine if this runner is killed.
func (m *run) writeRecord() error {
	m.began = time.Now()
	r := record.Of(m.vm, m.began)
	r.QEMU = m.processes.QEMU.ID()
	for _, h := range m.processes.Helpers {
		r.Helpers = append(r.Helpers, h.ID())
	}
	return r.Write(m.vm.RuntimeDir)
}

// carryOn drives a machine that was found running.
func (m *run) carryOn(ctx context.Context) error {
	if err := m.keepCards(ctx, true); err != nil {
		return err
	}
	m.driveMachine(ctx, nil)
	ctx = context.WithoutCancel(ctx)
	m.publishStatus(m.describeVM(), status.Confined{Confinement: m.vm.Held})
	event := func(qmp.Event) {}
	m.memory = childprocess.MemoryGroupOf(m.processes.QEMU.Pid())
	if err := m.serveMachine(ctx); err != nil {
		m.log.Error("the VM has no control interface", "err", err)
	} else {
		event = m.server.Event
	}
	m.keepDirectories()
	m.driver.Adopt(machine.Booting{
		Began: m.began, Reason: vmstatus.ReasonRunnerRestarted, Resource: m.vm.Config.Resource,
	}, event)
	if err := m.takeConsole(); err != nil {
		m.log.Error("the guest has no console", "err", err)
		m.server.Console().Refuse(err.Error() + "; it works again when the VM has been restarted")
	}
	if m.opts.OnPaused != nil {
		if err := m.opts.OnPaused(ctx, m.vm); err != nil {
			return err
		}
	}
	m.log.Info("adopted", "state", "Booting", "pid", m.processes.QEMU.Pid(), "vmType", m.vm.Plan.Type,
		"uuid", m.vm.Spec.UUID)
	if stop := m.progress.Stop; stop != nil {
		m.cancel(errors.New(stop.Cause))
	}
	return nil
}

// sinceBoot returns the time since the host booted, including suspended time.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // Linux has had this clock since 2.6.39
	}
	return time.Duration(t.Nano())
}

// saveProgress writes this runner's progress to the runtime directory.
func (m *run) saveProgress(p machine.Progress) error { return record.WriteProgress(m.vm.RuntimeDir, p) }

// machineType returns the concrete type of the running machine, such as "pc-q35-7.2".
func (m *run) machineType(ctx context.Context) (string, error) {
	var object string
	question := map[string]string{"path": "/machine", "property": "type"}
	err := m.driver.Query(ctx, qmp.Command{Execute: "qom-get", Arguments: question}, &object)
	return strings.TrimSuffix(object, "-machine"), err
}
