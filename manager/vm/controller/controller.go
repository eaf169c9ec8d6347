package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "vmop/api/v1"
	addressctl "vmop/manager/addresses/controller"
	attachmentctl "vmop/manager/attachment/controller"
	diskctl "vmop/manager/disk/controller"
	"vmop/manager/operation/migration"
	poolctl "vmop/manager/pool/controller"
	snapshotctl "vmop/manager/snapshot/controller"
	"vmop/manager/store"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/class"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/vmspec"
)

// Options contains what the controller needs in addition to a manager. Only Instance, Kill, Started and Now are
// optional.
type Options struct {
	// Namespace of the controlled VMs.
	Namespace string
	// Settings returns the current settings of the manager's configuration. It is called often, by several
	// goroutines.
	Settings func() objects.Settings
	// Types checks VM types.
	Types TypeChecker
	// Changed receives a value when the result of Settings changes, so that all VMs are reconciled.
	Changed <-chan struct{}
	// Instance is the name of this manager's process in events, for example its pod's name.
	Instance string
	// Kill makes the runner in a VM's pod end its machine immediately, on behalf of a user. If it is nil, only the
	// pod is deleted.
	Kill func(ctx context.Context, vm *v1.VirtualMachine, pod *corev1.Pod, user string) error
	// Guest returns the running guest in a VM's pod, to freeze it for a snapshot.
	Guest func(vm *v1.VirtualMachine, pod *corev1.Pod) (snapshotctl.Guest, error)
	// Source and Target return the runner in a VM's pod: Source for the pod with the guest, Target for the pod to
	// which the guest moves.
	Source, Target func(vm *v1.VirtualMachine, pod *corev1.Pod) (migration.Runner, error)
	// Started is called after each start of a VM. It may be nil.
	Started func(decide.Start)
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	rewriting apply.Rate                // zero: apply.Unhurried
	exempt    func(netip.AddrPort) bool // of registries: internal addresses in tests
}

// TypeChecker checks whether a VM type accepts a VM.
type TypeChecker interface {
	// CheckType returns no error if the VM's type creates a launch plan for the VM. If the type rejects the VM, the
	// error is a [TypeRefused]. After any other error the result is unknown, and the check is repeated.
	//
	// Modules are the custom types that the VM can use: the source texts of Starlark modules by file name. CheckType
	// must not modify them.
	//
	// It ignores sizes in the status that the type decided earlier.
	CheckType(ctx context.Context, vm *v1.VirtualMachine, modules map[string]string) (Accepted, error)
}

// Accepted is what follows from a VM for its type.
type Accepted struct {
	// Architecture of nodes that can run the guest with KVM, in Kubernetes notation (amd64, arm64), or "" if no node
	// can.
	Architecture string
	// Sizes that the type decides for fields that the VM does not set.
	Sizes vmspec.Sizes
}

// TypeRefused is the error of a VM type that rejects a VM.
type TypeRefused struct {
	// Message comes from Starlark or another check. It is for users.
	Message string
}

func (r TypeRefused) Error() string { return r.Message }

// concurrency is how many VMs are reconciled at the same time. It is sufficient if the API server is some
// milliseconds away.
const concurrency = 8

// Controller reconciles VMs.
type Controller struct {
	store      *store.Store
	reconciler *reconciler
}

// Add adds the controller to a manager. It doesn't use the manager's cache.
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
	ctl, err := controller.New("vm", mgr, controller.Options{
		Reconciler:              c,
		MaxConcurrentReconciles: concurrency,
		RecoverPanic:            new(true), // an error with one VM must not block others
		RateLimiter:             store.NewRateLimiter(),
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

// known is the source of VMs. It is synced when addresses, disks and attachments are also known.
type known struct {
	*store.Store

	addresses   *addressctl.Controller
	disks       *diskctl.Controller
	attachments *attachmentctl.Controller
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

// Store returns what the manager knows about the namespace.
func (c *Controller) Store() *store.Store { return c.store }

// Volumes returns what the manager knows about the disks of the namespace.
func (c *Controller) Volumes() store.Volumes {
	disks := c.reconciler.disks
	return store.Volumes{
		Disks: disks.Book(), Images: disks.Images().Book(), Attachments: c.reconciler.attachments.Book(),
		Snapshots: c.reconciler.machines.Book(),
	}
}

// Pools returns the controller that assigns VMs of pools to users.
func (c *Controller) Pools() *poolctl.Controller { return c.reconciler.pools }

// Modules returns the custom types that a VM can use: the source texts of Starlark modules by file name. The caller
// must not modify them.
func (c *Controller) Modules(ctx context.Context, vm *v1.VirtualMachine) (map[string]string, error) {
	from, err := c.store.Metadata(objects.KindConfigMap, objects.TypesConfigMap(vm, c.reconciler.opts.Settings()))
	if err != nil {
		return nil, err
	}
	return c.reconciler.modules.modulesOf(ctx, c.reconciler.live, from)
}

// Resolve returns a VM completed with what its class would provide if it were started now. If the class prevents a
// start, fault is the reason, with the VM's field; otherwise "".
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

// Ready returns nil when all objects in the namespace that concern VMs have been listed. From then on VMs are
// reconciled as soon as this manager is the leader.
func (c *Controller) Ready() error {
	if kinds := c.store.Unlisted(); len(kinds) > 0 {
		return fmt.Errorf("the list of each %s has not been read yet", kinds[0])
	}
	return nil
}

// Phases counts VMs by their phase. It returns nil as long as the VMs are unknown.
func (c *Controller) Phases() map[v1.Phase]int {
	if len(c.store.Unlisted()) > 0 {
		return nil
	}
	return c.store.Phases()
}

// watchSettings reconciles all VMs after a change of the manager's configuration.
func (c *reconciler) watchSettings(ctx context.Context, _ store.Queue) error {
	c.attachments.EnqueueAll() // includes attachments to deleted VMs
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
