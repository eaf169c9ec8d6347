package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"vmop/loopback"
	"vmop/process"
	"vmop/runner/cleanup"
	"vmop/runner/launch"
	"vmop/runner/prepare"
	"vmop/runner/record"
	"vmop/runner/status"
)

// A Machine is one that an earlier runner has started.
type Machine struct {
	VM *prepare.VM
	// Wanted is the VM as it was wanted when the earlier runner was killed.
	Wanted *prepare.VM
	Began  time.Time // when the guest was let run
	// Processes are those that run.
	Processes *launch.Processes
}

// TakeOver takes over a machine that runs, also if it is only to be ended in good
// order, and notes how to undo it.
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
	m := &Machine{VM: vm, Wanted: lastWanted(vm, log), Began: r.record.Began}
	if m.Processes, err = r.processes(ctx, vm, undo, log); err != nil {
		return nil, err
	}
	return m, nil
}

// heldWithoutRunner returns what the kernel holds the processes to now that the earlier runner has ended.
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

// lastWanted returns the VM as it was wanted when the earlier runner was killed. An
// older wish must not come before it: a reset counter that goes back would reset
// the VM when it returns.
func lastWanted(vm *prepare.VM, log *slog.Logger) *prepare.VM {
	next, err := vm.Renewed(record.ReadConfig(vm))
	if err != nil {
		log.Warn("the configuration in force when the earlier runner was killed is unknown", "err", err)
		return vm
	}
	return next
}

// processes finds the helpers that still run; the driver reports the others.
func (r *Remains) processes(
	ctx context.Context, vm *prepare.VM, undo *cleanup.List, log *slog.Logger,
) (*launch.Processes, error) {
	if ids := r.record.Helpers; len(ids) != len(vm.Plan.Helpers) {
		return nil, fmt.Errorf("the record has %d helpers, but the plan has %d", len(ids), len(vm.Plan.Helpers))
	}
	found := &launch.Processes{QEMU: r.qemu}
	for i, id := range r.record.Helpers {
		if id == (process.ID{}) { // it had ended when the record was made again
			continue
		}
		h, err := process.Adopt(id, vm.Plan.Helpers[i].Name, log)
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

// adoptTaps makes again what the taps had from the earlier runner. Without it
// the guest has no network, which is no reason to leave it alone.
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

// Ended returns the machine that an earlier runner has left, if QEMU ended in good
// order while no runner was there, and the parent of both has kept the exit status
// (vmrunner init does); else nil. Its lock must be free. A QEMU that failed, or of which
// nothing is known, is no reason not to start the VM.
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
	if exit, known := r.QEMU.Ended(about); !known || exit != (process.Exit{}) {
		return nil
	}
	ended, err := r.VM(context.WithoutCancel(ctx), dir)
	if err != nil {
		log.Warn("the VM that has ended cannot be reconstructed", "err", err)
		return nil
	}
	return &Machine{VM: ended, Began: r.Began}
}
