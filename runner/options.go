package runner

import (
	"context"
	"log/slog"
	"time"

	"vmop/runner/prepare"
	"vmop/runner/status/k8s"
	"vmop/runner/status/notify"
)

// Options configure a runner.
type Options struct {
	// Options of the VM's preparation.
	prepare.Options
	// PolicyFault explains why an existing policy could not be read. If set, the runner starts no VM, and adopts
	// a running VM as it is.
	PolicyFault error
	// Log receives the runner's log; nil discards it.
	Log *slog.Logger
	// Version of the program, for the status.
	Version string
	// ImageCache is the folder of source images for disks; "" means the default folder.
	ImageCache string
	// BootTime is the maximum time from QEMU's start until the guest runs; 0 means one minute.
	BootTime time.Duration
	// Manager is the service manager that receives the VM's state; may be nil.
	Manager *notify.Manager
	// Reporter reports the VM's status to the cluster of the runner's pod; nil outside of a cluster. It continues
	// after Run has returned; the caller must close it.
	Reporter *k8s.Reporter
	// Control is the TCP port for connections of the cluster's manager; nil disables it, and 0 means any free
	// port.
	Control *int
	// GracePeriod is the time from a stop request until the runner is killed. It limits the guest's shutdown time
	// even if powerdownTimeout is longer. 0 means unlimited.
	GracePeriod time.Duration
	// Receive makes the runner wait for a guest from another runner; nil starts the VM.
	Receive *Receive
	// Reread makes the runner read the configuration again, for places where changes are not noticed. May be nil.
	Reread <-chan struct{}
	// OnPaused is called when QEMU answers and the guest does not run yet, which is the moment to attach to its
	// consoles. May be nil.
	OnPaused func(ctx context.Context, vm *prepare.VM) error
}
