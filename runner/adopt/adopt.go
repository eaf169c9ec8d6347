package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"vmop/internal/childprocess"
	"vmop/internal/loopback"
	"vmop/runner/adopt/record"
	"vmop/runner/launch"
	"vmop/runner/launch/cleanup"
	"vmop/runner/prepare"
	"vmop/runner/status"
)

// A Machine is a machine that an earlier runner has started.
type Machine struct {
	VM *prepare.VM
	// Wanted is the last desired VM before the earlier runner was killed.
	Wanted *prepare.VM
	Began  time.Time // when the guest was started
	// Processes are the running processes.
	Processes *launch.Processes
}

// TakeOver takes over a running machine, even if it will only be shut down, and records how to undo it.
func (r *Remains) TakeOver(ctx context.Context, undo *cleanup.List, log *slog.Logger) (*Machine, error) {
	ctx = context.WithoutCancel(ctx)
	vm, err := r.record.VM(ctx, r.dir)
	if err != nil {
		return nil, err
	}
	if err := cleanup.RemoveHalfWritten(vm); err != nil {
		log.Warn("files that the earlier runner left half written are kept", "err", err)
	}
	if err := record.Link(vm.DataDir, r.dir); err != nil {
		log.Warn("the runtime directory is not recorded: if the configuration moves it, the VM will not be found", "err", err)
	}
	vm.Held = heldWithoutRunner(vm)
	undo.AddRuntimeDir(vm)
	undo.AddSockets(vm)
	adoptTaps(ctx, vm, undo, log)
	m := &Machine{VM: vm, Wanted: lastWanted(ctx, vm, log), Began: r.record.Began}
	if m.Processes, err = r.helperProcesses(ctx, vm, undo, log); err != nil {
		return nil, err
	}
	return m, nil
}

// heldWithoutRunner returns how the kernel confines the processes now that the earlier runner has ended.
func heldWithoutRunner(vm *prepare.VM) *status.Confinement {
	if vm.Held == nil || vm.Held.Loopback != "" || !vm.ConfinementOf(len(vm.Plan.Helpers)).Kernel().NoLoopback {
		return vm.Held
	}
	now := *vm.Held
	switch {
	case !now.NoLoopback:
		now.Loopback = "QEMU was started by an earlier version; restart the VM"
	case loopback.EndsWithRunner():
		now.NoLoopback = false
		now.Loopback = "the runner that started QEMU was killed, and kernel.yama.ptrace_scope lets no other process of this " +
			"user decide on QEMU's connections; restart the VM"
	}
	return &now
}

// lastWanted returns the last desired VM before the earlier runner was killed. An older state must not be applied
// before it: a reset counter that decreases would reset the VM when it increases again.
func lastWanted(ctx context.Context, vm *prepare.VM, log *slog.Logger) *prepare.VM {
	next, err := vm.Renewed(ctx, record.ReadConfig(vm))
	if err != nil {
		log.Warn("the configuration that was active when the earlier runner was killed is unknown", "err", err)
		return vm
	}
	return next
}

// helperProcesses finds the helpers that are still running; the driver reports the others.
func (r *Remains) helperProcesses(
	ctx context.Context, vm *prepare.VM, undo *cleanup.List, log *slog.Logger,
) (*launch.Processes, error) {
	if ids := r.record.Helpers; len(ids) != len(vm.Plan.Helpers) {
		return nil, fmt.Errorf("the record has %d helpers, but the plan has %d", len(ids), len(vm.Plan.Helpers))
	}
	found := &launch.Processes{QEMU: r.qemu}
	for i, id := range r.record.Helpers {
		if id == (childprocess.ID{}) { // it had ended when the record was recreated
			continue
		}
		h, err := childprocess.Adopt(id, vm.Plan.Helpers[i].Name, log)
		if errors.Is(err, os.ErrProcessDone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found.Helpers = append(found.Helpers, h)
		undo.AddProcess(ctx, h)
	}
	undo.AddProcess(ctx, r.qemu)
	return found, nil
}

// adoptTaps restores the taps' settings from the earlier runner. Failures are only logged: a guest without
// network is still adopted.
func adoptTaps(ctx context.Context, vm *prepare.VM, undo *cleanup.List, log *slog.Logger) {
	for _, t := range vm.Plan.Taps {
		tap, err := launch.AdoptTap(ctx, t, vm.Spec.UUID, log)
		if err != nil {
			log.Error("a network of the VM does not work", "tap", t.Name, "err", err)
			continue
		}
		undo.AddMachine("tap "+t.Name, tap.Close)
	}
}

// Ended returns the machine that an earlier runner has left, if QEMU ended in good order without a runner and the
// parent of both has kept the exit status (vmrunner init does); otherwise nil. Its lock must be free. A failed
// QEMU, or one with an unknown result, doesn't prevent the start of the VM.
func Ended(ctx context.Context, vm *prepare.VM, log *slog.Logger) *Machine {
	dir, ran := record.Linked(vm.DataDir, vm.RuntimeDir)
	if !ran {
		return nil
	}
	r, there, err := record.Read(dir)
	if err != nil || !there || r.CheckVersion(dir) != nil {
		return nil
	}
	about, cancel := context.WithTimeout(context.WithoutCancel(ctx), remainsTime)
	defer cancel()
	if exit, known := r.QEMU.Ended(about); !known || exit != (childprocess.Exit{}) {
		return nil
	}
	ended, err := r.VM(context.WithoutCancel(ctx), dir)
	if err != nil {
		log.Warn("the VM that has ended cannot be reconstructed", "err", err)
		return nil
	}
	return &Machine{VM: ended, Began: r.Began}
}
