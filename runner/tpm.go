package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"vmop/process"
	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// watchHelpers reports helpers that end while QEMU runs, and those that are
// missing already where a runner takes over a machine. QEMU lives on: a guest
// without its TPM is worth more than none.
func (f *mishaps) watchHelpers(ctx context.Context) {
	if f.m.vm.Plan.Helper(plan.RoleTPM) != "" {
		f.m.tell(status.TPMWorks)
	}
	for _, h := range f.m.helpers {
		go f.watchHelper(ctx, h)
	}
	for _, wanted := range f.m.vm.Plan.Helpers {
		if !slices.ContainsFunc(f.m.helpers, func(h *process.Process) bool { return h.Name() == wanted.Name }) {
			f.lose(wanted.Name, "there was no runner to see why")
		}
	}
}

func (f *mishaps) watchHelper(ctx context.Context, h *process.Process) {
	select {
	case <-ctx.Done():
		return
	case <-h.Done():
	}
	select {
	case <-ctx.Done(): // it ends with QEMU
	case <-f.m.qemu.Done():
	case <-time.After(endTime):
		f.lose(h.Name(), h.Exit().String())
	}
}

// lose reports the loss of a helper.
func (f *mishaps) lose(name, exit string) {
	defer f.m.log.Warn("helper ended while the VM runs", "process", name, "exit", exit)
	ended := name + " has ended: " + exit
	if name != f.m.vm.Plan.Helper(plan.RoleTPM) {
		f.m.tell(status.Faults{Reason: status.HelperLost, Messages: f.m.hold.lose(ended + "; the VM runs on without it until it is started anew")})
		return
	}
	f.m.hold.loseTPM()
	f.m.tell(status.TPMGone, status.Faults{
		Reason:   status.Reason(status.TPMLost),
		Messages: []string{ended + "; the guest runs on without its TPM, and cannot be reset: stop the VM and start it anew"},
	})
	f.look()
}

// forbidReboots has QEMU end in good order when the guest reboots without its
// TPM. Otherwise it would crash then, since it cannot reset the TPM: data that
// only QEMU has, such as the tables of qcow2 images, would be lost. It can't be
// kept running either way.
func (f *mishaps) forbidReboots(ctx context.Context) {
	if f.forbidden || !f.m.hold.tpmIsLost() {
		return
	}
	err := f.m.query(ctx, "set-action", map[string]string{"reboot": "shutdown"}, nil)
	var refused *qmp.Error
	f.forbidden = err == nil || errors.As(err, &refused)
	if err != nil {
		f.m.log.Warn("QEMU will crash when the guest reboots, because its TPM is lost", "err", err)
	}
}
