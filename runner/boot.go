package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/reconcile"
	"vmop/vmspec"
)

// boot gives the paused machine the CPUs, the memory and the passwords it is
// to have, and lets the guest run.
func (m *machine) boot(ctx context.Context, opts Options) error {
	limit := cmp.Or(opts.BootTime, bootTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("QEMU did not answer within %s%s", limit, m.suspects()))
	defer cancel()
	if err := m.rememberType(); err != nil {
		return err
	}
	m.live = reconcile.New(m.vm.Plan.Rules, m.vm.beginning())
	if err := m.settle(ctx); err != nil {
		return err
	}
	if err := m.monitor.current().Ready(ctx); err != nil { // QEMU's sockets are there now
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
	if err := m.remember(); err != nil {
		return err
	}
	if err := m.query(ctx, "cont", nil, nil); err != nil {
		return err
	}
	// A wish that comes before the event is taken in is one for a guest that runs.
	m.live.Observe(qmp.Event{Name: "RESUME"}, time.Now())
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

// settle makes the paused machine what it is to be, as far as it can be. When
// QEMU refuses something, the machine is not started.
func (m *machine) settle(ctx context.Context) error {
	session := m.monitor.current()
	for {
		step := m.live.Next(m.vm.desired(m.vm), time.Now())
		if len(step.Requests) == 0 {
			break
		}
		pending := make([]*qmp.Pending, len(step.Requests))
		for i, r := range step.Requests {
			pending[i] = session.Start(r.Command)
		}
		for i, r := range step.Requests {
			reply, err := pending[i].Wait(ctx)
			if err != nil {
				return m.blame(fmt.Errorf("%s: %w", r.Command, err))
			}
			m.live.Answer(r, reply, nil, time.Now())
		}
	}
	for _, p := range m.live.Facts().Problems {
		m.log.Warn("the machine is not as wanted", "err", p.Path+": "+p.Message)
	}
	return nil
}

// query runs a command and decodes what it returns, unless into is nil.
func (m *machine) query(ctx context.Context, command string, arguments, into any) error {
	reply, err := m.monitor.Run(ctx, qmp.Command{Execute: command, Arguments: arguments})
	if err != nil {
		return m.blame(fmt.Errorf("%s: %w", command, err))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return fmt.Errorf("%s: answer of QEMU: %w", command, err)
	}
	return nil
}

// machineType returns the concrete type of the running machine, "pc-q35-7.2".
func (m *machine) machineType(ctx context.Context) (string, error) {
	var object string
	err := m.query(ctx, "qom-get", map[string]string{"path": "/machine", "property": "type"}, &object)
	return strings.TrimSuffix(object, "-machine"), err
}
