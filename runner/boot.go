package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"vmop/runner/qmp"
	"vmop/runner/reconcile"
	"vmop/vmspec"
)

// boot gives the paused machine the CPUs, the memory and the passwords it is
// to have, and lets the guest run.
func (m *machine) boot(ctx context.Context, onPaused func(context.Context, *VM) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("QEMU did not answer within %s", bootTime))
	defer cancel()
	if err := m.settle(ctx, reconcile.New(m.vm.Plan.Rules, m.vm.beginning())); err != nil {
		return err
	}
	if onPaused != nil {
		if err := m.session.Ready(ctx); err != nil {
			return m.blame(err)
		}
		if err := onPaused(ctx, m.vm); err != nil {
			return err
		}
	}
	return m.query(ctx, "cont", nil, nil)
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

// desired is what the configuration wants of the running machine.
func (vm *VM) desired() reconcile.Desired {
	return reconcile.Desired{
		CPUs: vm.Spec.CurrentCPUs, RAM: int64(vm.Spec.CurrentRAM), Media: vm.media(),
		Password: vm.password, ResetCounter: vm.Config.ResetCounter,
	}
}

// settle makes the paused machine what it is to be, as far as it can be. When
// QEMU refuses something, the machine is not started.
func (m *machine) settle(ctx context.Context, live *reconcile.Machine) error {
	for {
		step := live.Next(m.vm.desired(), time.Now())
		if len(step.Requests) == 0 {
			break
		}
		pending := make([]*qmp.Pending, len(step.Requests))
		for i, r := range step.Requests {
			pending[i] = m.session.Start(r.Command)
		}
		for i, r := range step.Requests {
			reply, err := pending[i].Wait(ctx)
			if err != nil {
				return m.blame(fmt.Errorf("%s: %w", r.Command, err))
			}
			live.Answer(r, reply, nil, time.Now())
		}
	}
	for _, p := range live.Facts().Problems {
		m.log.Warn("the machine is not as wanted", "err", p.Path+": "+p.Message)
	}
	return nil
}

// query runs a command and decodes what it returns, unless into is nil.
func (m *machine) query(ctx context.Context, command string, arguments, into any) error {
	reply, err := m.session.Run(ctx, qmp.Command{Execute: command, Arguments: arguments})
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
