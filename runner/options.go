package runner

import (
	"context"
	"log/slog"
	"time"

	"vmop/runner/notify"
	"vmop/runner/prepare"
	"vmop/runner/status/k8s"
)

// Options say where things are.
type Options struct {
	// Options say by what the VM is prepared.
	prepare.Options
	// PolicyFault says why there is a policy, but it is not known: no VM is started,
	// and one that runs is adopted as it is.
	PolicyFault error
	// Log gets what happens; nil discards it.
	Log *slog.Logger
	// Version of the program, for the status.
	Version string
	// ImageCache is the folder where images are kept that disks are made of; empty: the usual one.
	ImageCache string
	// BootTime is how long QEMU may take from its start until the guest runs; 0
	// means a minute.
	BootTime time.Duration
	// Manager is the service manager that wants to know how the VM is; it may be
	// nil.
	Manager *notify.Manager
	// Reporter tells the cluster whose pod the runner is in how the VM is; nil means
	// that there is none. It reports on when Run has returned: the caller closes it.
	Reporter *k8s.Reporter
	// Control is the TCP port on which the manager of a cluster reaches the runner; nil: it
	// does not. 0 is any that is free.
	Control *int
	// GracePeriod is when the runner is killed after a stop request: the guest gets
	// no more time than that leaves, whatever powerdownTimeout says. 0 means never.
	GracePeriod time.Duration
	// Receive has the runner wait for the guest of another one; nil: it starts the VM.
	Receive *Receive
	// Reread makes a VM that runs read its configuration again, where no
	// change is noticed. It may be nil.
	Reread <-chan struct{}
	// OnPaused is called when QEMU answers and the guest does not run yet:
	// the moment to attach to its consoles. It may be nil.
	OnPaused func(ctx context.Context, vm *prepare.VM) error
}
