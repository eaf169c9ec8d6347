package vm

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// Options are what the controller needs besides a manager. Only Instance and Now can
// be left out.
type Options struct {
	// Namespace whose VMs are controlled.
	Namespace string
	// Settings returns what the manager's configuration says now. It is called
	// often, by several goroutines.
	Settings func() objects.Settings
	// Types knows which VM types make a machine of a VM.
	Types TypeChecker
	// Changed tells that Settings returns something else: all VMs are looked at
	// again.
	Changed <-chan struct{}
	// Instance is the name of this manager's process in events, such as its pod's.
	Instance string
	// Now is the clock. Nil: time.Now.
	Now func() time.Time

	rewriting rate // zero: calmly
}

// A TypeChecker tells whether a VM type makes a machine of a VM.
type TypeChecker interface {
	// CheckType returns nil if the VM's type makes a launch plan of it, and a
	// [TypeRefused] if it doesn't. Any other error means that nobody knows: it is
	// tried again. Modules are the custom types that the VM can use: the texts of
	// Starlark modules by their file names. They are not changed, and mustn't be.
	CheckType(ctx context.Context, vm *v1.VirtualMachine, modules map[string]string) error
}

// TypeRefused says why a VM type makes no machine of a VM.
type TypeRefused struct {
	// Message is Starlark's, or of whoever else refuses, for people.
	Message string
}

func (r TypeRefused) Error() string { return r.Message }

// concurrency is how many VMs are looked at at once: enough for API servers that are
// some milliseconds away.
const concurrency = 8

// Delays before something that went wrong is tried again. It is counted by VM:
// the usual limit for all together makes 5000 VMs wait for each other.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// Controller looks after VMs.
type Controller struct{ mirror *mirror }

// Add adds the controller to a manager, whose own cache is not used.
func Add(mgr manager.Manager, opts Options) (*Controller, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.rewriting.interval == 0 {
		opts.rewriting = calmly()
	}
	c := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), opts)
	watching, err := client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("VM controller: %w", err)
	}
	ctl, err := controller.New("vm", mgr, controller.Options{
		Reconciler:              c,
		MaxConcurrentReconciles: concurrency,
		RecoverPanic:            new(true), // one broken VM is no reason for others to wait
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return nil, fmt.Errorf("VM controller: %w", err)
	}
	for _, s := range []source.Source{c.mirror, source.Func(c.watchSettings)} {
		if err := ctl.Watch(s); err != nil {
			return nil, fmt.Errorf("VM controller: %w", err)
		}
	}
	follow := func(ctx context.Context) { c.mirror.follow(ctx, watching) }
	if err := mgr.Add(always(follow)); err != nil {
		return nil, fmt.Errorf("VM controller: %w", err)
	}
	return &Controller{c.mirror}, nil
}

// always is what runs whether this manager leads or stands by.
type always func(ctx context.Context)

// Start implements manager.Runnable.
func (run always) Start(ctx context.Context) error {
	run(ctx)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (always) NeedLeaderElection() bool { return false }

// Ready returns nil when everything in the namespace has been seen that concerns
// VMs, so that work can begin, or begins as soon as this manager leads.
func (c *Controller) Ready() error {
	if kind := c.mirror.missing(); kind != "" {
		return fmt.Errorf("the list of each %s is not there yet", kind)
	}
	return nil
}

// Phases counts VMs by their phase. Nil: they are not
// known yet.
func (c *Controller) Phases() map[v1.Phase]int {
	if c.mirror.missing() != "" {
		return nil
	}
	counts := map[v1.Phase]int{}
	for phase, count := range c.mirror.vms.states() {
		counts[v1.Phase(phase)] = count
	}
	return counts
}
