package vm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "vmop/api/v1"
	"vmop/manager/apply"
	"vmop/manager/assign"
	"vmop/manager/attach"
	"vmop/manager/capture"
	"vmop/manager/class"
	"vmop/manager/decide"
	"vmop/manager/leases"
	"vmop/manager/migration"
	"vmop/manager/objects"
	"vmop/manager/provision"
	"vmop/manager/store"
)

// Options are what the controller needs besides a manager. Only Instance, Kill, Started and
// Now can be left out.
type Options struct {
	// Namespace whose VMs are controlled.
	Namespace string
	// Settings returns the present settings of the manager's configuration. It is
	// called often, by several goroutines.
	Settings func() objects.Settings
	// Types checks VM types.
	Types TypeChecker
	// Changed receives when Settings returns something else: all VMs are reconciled.
	Changed <-chan struct{}
	// Instance is the name of this manager's process in events, such as its pod's.
	Instance string
	// Kill makes the runner in the pod of a VM end its machine at once, in the name of a user.
	// Nil: the pod's deletion has to suffice.
	Kill func(ctx context.Context, vm *v1.VirtualMachine, pod *corev1.Pod, user string) error
	// Guest returns the guest that is running in the pod of a VM, to be frozen for a snapshot.
	Guest func(vm *v1.VirtualMachine, pod *corev1.Pod) (capture.Guest, error)
	// Source and Target return the runner in the pod of a VM that has the guest, and in the one to which it moves.
	Source, Target func(vm *v1.VirtualMachine, pod *corev1.Pod) (migration.Runner, error)
	// Started is called after each start of a VM. Nil: nothing is.
	Started func(decide.Start)
	// Now is the clock. Nil: time.Now.
	Now func() time.Time

	rewriting apply.Rate                // zero: unhurried
	exempt    func(netip.AddrPort) bool // of registries: internal addresses of tests
}

// A TypeChecker checks whether a VM type makes a machine of a VM.
type TypeChecker interface {
	// CheckType returns no error if the VM's type makes a launch plan of it, and a
	// [TypeRefused] if it doesn't. Any other error means that this is not known: it
	// is tried again. Modules are the custom types that the VM can use: the texts of
	// Starlark modules by their file names. They must not be changed. The guest's
	// architecture is that of nodes that run it by KVM, in Kubernetes' words: amd64,
	// arm64; "" if no node's is.
	CheckType(ctx context.Context, vm *v1.VirtualMachine, modules map[string]string) (architecture string, err error)
}

// TypeRefused says why a VM type makes no machine of a VM.
type TypeRefused struct {
	// Message is Starlark's, or that of another check, for people.
	Message string
}

func (r TypeRefused) Error() string { return r.Message }

// concurrency is how many VMs are reconciled at the same time: enough for API servers that
// are some milliseconds away.
const concurrency = 8

// Delays before something that failed is tried again. They are counted for each VM: the
// usual limit for all together would make 5000 VMs wait for each other.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// Controller controls VMs.
type Controller struct {
	store      *store.Store
	reconciler *reconciler
}

// Add adds the controller to a manager, whose own cache is not used.
func Add(mgr manager.Manager, opts Options) (*Controller, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Started == nil {
		opts.Started = func(decide.Start) {}
	}
	if opts.rewriting.Interval == 0 {
		opts.rewriting = apply.Unhurried()
	}
	c := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), opts)
	watching, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("VM controller: %w", err)
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
	ctl, err := controller.New("vm", mgr, controller.Options{
		Reconciler:              c,
		MaxConcurrentReconciles: concurrency,
		RecoverPanic:            new(true), // a fault with one VM keeps no others waiting
		RateLimiter:             limiter,
	})
	if err != nil {
		return nil, fmt.Errorf("VM controller: %w", err)
	}
	vms := known{c.store, c.addresses, c.disks, c.attachments}
	for _, s := range []source.Source{vms, source.Func(c.watchSettings)} {
		if err := ctl.Watch(s); err != nil {
			return nil, fmt.Errorf("VM controller: %w", err)
		}
	}
	c.store.OnChange(c.addresses.VMChanged)
	c.store.OnChange(c.disks.VMChanged)
	c.store.OnChange(c.machines.VMChanged)
	c.store.OnChange(c.attachments.VMChanged)
	follow := func(ctx context.Context) error {
		c.store.Follow(ctx, watching)
		return nil
	}
	err = errors.Join(mgr.Add(store.Always(follow)), c.addresses.Add(mgr, watching), c.disks.Add(mgr, watching),
		c.snapshots.Add(mgr, watching), c.machines.Add(mgr, watching),
		c.attachments.Add(mgr, watching))
	if err != nil {
		return nil, fmt.Errorf("VM controller: %w", err)
	}
	keeper := &classes{
		store: c.store, writer: apply.ClassWriter{Client: mgr.GetClient(), Namespace: opts.Namespace},
		types: opts.Types, now: opts.Now, last: map[string]class.Last{},
	}
	if err := errors.Join(mgr.Add(keeper), mgr.Add(c.pools)); err != nil {
		return nil, fmt.Errorf("VM controller: %w", err)
	}
	return &Controller{c.store, c}, nil
}

// known is the source of VMs. Before the first is reconciled addresses, disks and attachments are
// known, too.
type known struct {
	*store.Store

	addresses   *leases.Controller
	disks       *provision.Controller
	attachments *attach.Controller
}

// WaitForSync implements source.SyncingSource.
func (k known) WaitForSync(ctx context.Context) error {
	err := k.Store.WaitForSync(ctx)
	if err == nil {
		k.addresses.Await(ctx)
		k.disks.Await(ctx)
		k.attachments.Await(ctx)
	}
	return err
}

// Store returns what the manager knows of the namespace.
func (c *Controller) Store() *store.Store { return c.store }

// Volumes returns what the manager knows of the disks of the namespace.
func (c *Controller) Volumes() store.Volumes {
	disks := c.reconciler.disks
	return store.Volumes{
		Disks: disks.Book(), Images: disks.Images().Book(), Attachments: c.reconciler.attachments.Book(),
		Snapshots: c.reconciler.machines.Book(),
	}
}

// Pools gives VMs of pools to users.
func (c *Controller) Pools() *assign.Controller { return c.reconciler.pools }

// Modules returns the custom types that a VM can use: the texts of Starlark modules by their file
// names. They must not be changed.
func (c *Controller) Modules(ctx context.Context, vm *v1.VirtualMachine) (map[string]string, error) {
	from, err := c.store.Metadata(objects.KindConfigMap, objects.TypesConfigMap(vm, c.reconciler.opts.Settings()))
	if err != nil {
		return nil, err
	}
	return c.reconciler.modules.of(ctx, c.reconciler.live, from)
}

// Resolve returns a VM with what its class would give it if it were started now, and why it
// could not be, by the path in the VM; "" if it could.
func (c *Controller) Resolve(vm *v1.VirtualMachine) (resolved *v1.VirtualMachine, fault string, err error) {
	config, err := c.store.Metadata(objects.KindConfigMap, vm.Name)
	if err != nil {
		return nil, "", err
	}
	resolved, of, err := decide.Resolve(vm, nil, config, c.store)
	if problems := of.Check().Problems; len(problems) > 0 {
		fault = problems[0].Message
	}
	return resolved, fault, err
}

// Ready returns nil when everything in the namespace that concerns VMs has been listed, so
// that VMs are reconciled, or are as soon as this manager leads.
func (c *Controller) Ready() error {
	if kinds := c.store.Unlisted(); len(kinds) > 0 {
		return fmt.Errorf("the list of each %s is not there yet", kinds[0])
	}
	return nil
}

// Phases counts VMs by their phase. Nil: they are not known yet.
func (c *Controller) Phases() map[v1.Phase]int {
	if len(c.store.Unlisted()) > 0 {
		return nil
	}
	return c.store.Phases()
}

// watchSettings reconciles all VMs when the manager's configuration has changed.
func (c *reconciler) watchSettings(ctx context.Context, _ store.Queue) error {
	c.attachments.EnqueueAll() // also to VMs that are gone
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.opts.Changed:
			}
			c.epoch.Add(1)
			c.store.EnqueueAll()
			c.addresses.EnqueueAll()
		}
	}()
	return nil
}
