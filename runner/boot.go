package runner

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/agents"
	"vmop/runner/control"
	"vmop/runner/drive"
	"vmop/runner/machine"
	"vmop/runner/reconcile"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// drive begins to look after the machine: from now on the driver alone speaks
// with QEMU. first is the connection with one that was just started; nil means
// that the machine was found running.
func (m *run) drive(ctx context.Context, first *qmp.Session) {
	cfg := drive.Config{
		Machine: m.machineConfig(), Monitor: filepath.Join(m.vm.RuntimeDir, monitorSocket), Session: first,
		QEMU:    m.qemu,
		Tracker: m.tracker, Log: m.log, Save: m.saveProgress, SinceBoot: sinceBoot, Alive: m.service.Alive(),
	}
	if first != nil {
		start := m.vm.beginning()
		cfg.Machine.Start = &start
	}
	for _, h := range m.helpers {
		cfg.Helpers = append(cfg.Helpers, h)
	}
	paths := map[string]string{}
	for _, role := range agents.Roles() {
		paths[role] = m.vm.Plan.Socket(role)
	}
	cfg.Agents = agents.New(context.WithoutCancel(ctx), agents.Config{
		Paths: paths, Log: m.log, Do: func(f func()) { m.driver.Do(f) }, Publish: m.publish,
		State: func() vmstatus.State { return m.tracker.Status().State },
	})
	m.driver = drive.New(ctx, cfg)
	m.outcome = make(chan machine.Outcome, 1)
	go func() { m.outcome <- m.driver.Run(ctx) }()
	m.undo.add("driver", func() error {
		err := m.driver.Close()
		<-m.driver.Done()
		return err
	})
}

// machineConfig is what the driver is to know of the machine.
func (m *run) machineConfig() machine.Config {
	vm := m.vm
	cfg := machine.Config{
		Plan: vm.Plan, Wish: m.wanted.wish(vm), Progress: m.progress, PID: m.qemu.Pid(), Agents: agents.Roles(),
		GuestAgent: agents.GuestRole, Viewer: viewerName, CPUs: vm.Spec.CurrentCPUs, RAM: int64(vm.Spec.MaximumRAM),
		Protected: vm.protected, Grace: m.grace,
	}
	for _, h := range m.helpers {
		cfg.Running = append(cfg.Running, h.Name())
	}
	return cfg
}

// viewerName is a viewer's name for people.
func viewerName(name string) string {
	if who, ok := control.VNCClient(name); ok {
		return who
	}
	return name
}

// boot waits until the paused machine is as it is to be, and lets the guest run.
func (m *run) boot(ctx context.Context, opts Options) error {
	m.drive(ctx, m.session)
	limit := cmp.Or(opts.BootTime, bootTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("QEMU did not answer within %s%s", limit,
		m.suspects()))
	defer cancel()
	if err := m.rememberType(); err != nil {
		return err
	}
	if err := m.driver.Settle(ctx); err != nil {
		return m.blame(err)
	}
	if err := m.serve(ctx); err != nil {
		return err
	}
	if err := m.takeConsole(); err != nil {
		return err
	}
	if opts.OnPaused != nil {
		if err := opts.OnPaused(ctx, m.vm); err != nil {
			return err
		}
	}
	if err := m.remember(ctx); err != nil {
		return err
	}
	booting := machine.Booting{Began: m.began, Resource: m.vm.Config.Resource}
	if err := m.driver.Release(ctx, booting, m.server.Event); err != nil {
		return m.blame(fmt.Errorf("let the guest run: %w", err))
	}
	return nil
}

// beginning is what the plan has made of the machine.
func (vm *VM) beginning() reconcile.Start {
	return reconcile.Start{Media: vm.media(), ResetCounter: vm.Config.ResetCounter}
}

// media are the files of the CD drives, by their index in vm.drives.
func (vm *VM) media() map[int]string {
	media := map[int]string{}
	for i, d := range vm.Spec.Drives {
		if d.Type == vmspec.DriveIDECD {
			media[i] = d.File
		}
	}
	return media
}

// desired is what the configuration wants of a running machine. Media are
// wished for only while the list of drives has the shape that it has there:
// otherwise an index would mean another drive.
func (vm *VM) desired(running *VM) reconcile.Desired {
	want := reconcile.Desired{
		CPUs: vm.Spec.CurrentCPUs, RAM: int64(vm.Spec.CurrentRAM),
		Password: vm.password, ResetCounter: vm.Config.ResetCounter,
	}
	sameDrive := func(a, b vmspec.Drive) bool { return a.Type == b.Type && a.Bus == b.Bus }
	if slices.EqualFunc(vm.Spec.Drives, running.Spec.Drives, sameDrive) {
		want.Media = vm.media()
	}
	return want
}

// powerdownTimeout is what the guest has for shutting down.
func (vm *VM) powerdownTimeout() time.Duration {
	return time.Duration(*vm.Spec.PowerdownTimeout) * time.Second
}

// machineType returns the concrete type of the running machine, "pc-q35-7.2".
func (m *run) machineType(ctx context.Context) (string, error) {
	var object string
	question := map[string]string{"path": "/machine", "property": "type"}
	err := m.driver.Query(ctx, qmp.Command{Execute: "qom-get", Arguments: question}, &object)
	return strings.TrimSuffix(object, "-machine"), err
}
