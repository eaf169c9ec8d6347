package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"vmop/runner/qmp"
	"vmop/runner/reconcile"
	"vmop/vmtypes/plan"
)

// boot gives the paused machine the CPUs, the memory and the passwords it is
// to have, and lets the guest run.
func (m *machine) boot(ctx context.Context, onPaused func(context.Context, *VM) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("QEMU did not answer within %s", bootTime))
	defer cancel()
	have := reconcile.Observed{RAM: int64(m.vm.Spec.MaximumRAM)}
	if needsCPUs(m.vm.Plan.Rules, m.vm.Spec.CurrentCPUs) {
		if err := m.query(ctx, "query-hotpluggable-cpus", nil, &have.CPUs); err != nil {
			return err
		}
	}
	want := reconcile.Desired{CPUs: m.vm.Spec.CurrentCPUs, RAM: int64(m.vm.Spec.CurrentRAM), Password: m.vm.password}
	commands, err := reconcile.Next(m.vm.Plan.Rules, want, have)
	if err != nil {
		return err
	}
	if err := m.runAll(ctx, commands); err != nil {
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
	return m.runAll(ctx, []qmp.Command{{Execute: "cont"}})
}

// needsCPUs says whether CPUs have to be plugged before the guest runs.
func needsCPUs(rules plan.Rules, want int) bool {
	for _, r := range rules {
		if cpus, ok := r.(plan.CPUs); ok && want > cpus.Boot {
			return true
		}
	}
	return false
}

// runAll sends all commands at once and waits for their answers.
func (m *machine) runAll(ctx context.Context, commands []qmp.Command) error {
	pending := make([]*qmp.Pending, len(commands))
	for i, c := range commands {
		pending[i] = m.session.Start(c)
	}
	for i, p := range pending {
		if _, err := p.Wait(ctx); err != nil {
			return m.blame(fmt.Errorf("%s: %w", commands[i], err))
		}
	}
	return nil
}

// query runs a command and decodes what it returns.
func (m *machine) query(ctx context.Context, command string, arguments, into any) error {
	reply, err := m.session.Run(ctx, qmp.Command{Execute: command, Arguments: arguments})
	if err != nil {
		return m.blame(fmt.Errorf("%s: %w", command, err))
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
