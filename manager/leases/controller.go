package leases

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/objects"
	"vmop/manager/store"
)

// VMs are what is known of the VMs of the namespace.
type VMs interface {
	// VM returns a VM, nil if there is none; Pod the pod that its stateful set has made.
	VM(name string) (*v1.VirtualMachine, error)
	Pod(vm string) (*corev1.Pod, error)
	// Enqueue makes VMs be reconciled.
	Enqueue(vms ...string)
	// WaitForSync waits until all VMs and pods are known.
	WaitForSync(ctx context.Context) error
}

// Options are what a Controller needs.
type Options struct {
	// Namespace whose VMs get addresses.
	Namespace string
	// Settings returns the present settings of the manager's configuration.
	Settings func() objects.Settings
	// VMs are those of the namespace.
	VMs VMs
	// Client writes; Live reads from the API server, only before a lease is released.
	Client client.Writer
	Live   client.Reader
	// Random returns a number from 0 to below n.
	Random func(n uint64) uint64
	// Now is the clock.
	Now func() time.Time
}

// A Controller gives addresses. See docs/decisions/0097-address-users.md. Its methods may be
// called by several goroutines.
type Controller struct {
	opts    Options
	book    *store.Addresses
	waiting waiting

	mu        sync.Mutex
	namespace types.UID // that of the namespace, once it is known
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// New returns a controller that knows nothing yet.
func New(opts Options) *Controller {
	c := &Controller{opts: opts, waiting: waiting{all: map[string]map[string]bool{}}}
	c.book = store.NewAddresses(opts.Namespace, c.changed, c.freed)
	return c
}

// changed looks at what a change of an address object or its lease concerns.
func (c *Controller) changed(address, vm string) {
	c.enqueue(address)
	vms := c.waiting.remove(address)
	if have, err := c.book.Address(address); vm != "" && have == nil && err == nil {
		vms = append(vms, vm)
	}
	c.opts.VMs.Enqueue(vms...)
}

// freed looks at who waits for a lease to be gone, or to be released.
func (c *Controller) freed(lease string) {
	c.enqueue(c.waiting.remove(lease)...)
	if !c.book.Leased(addresses.AddressOf(lease)) {
		c.enqueue(c.waiting.removeSome(anyForObject, wokenByOne)...)
		c.opts.VMs.Enqueue(c.waiting.removeSome(anyForVM, wokenByOne)...)
	}
}

// What those wait for who take any address, which is no name of an object; and how many of them look again
// when one is free: some of them may have been deleted meanwhile, and all of them could be thousands.
const (
	anyForObject = "any/object"
	anyForVM     = "any/vm"
	wokenByOne   = 8
)

// enqueue makes address objects be looked at. A manager that stands by begins with all when
// it leads.
func (c *Controller) enqueue(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		return
	}
	for _, name := range names {
		c.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: c.opts.Namespace, Name: name}})
	}
}

// EnqueueAll makes everything be looked at, after a change of the settings.
func (c *Controller) EnqueueAll() { c.enqueue(c.book.Names()...) }

// VMChanged makes the addresses be looked at of a VM that is gone.
func (c *Controller) VMChanged(vm string) {
	if is, err := c.opts.VMs.VM(vm); is == nil && err == nil {
		c.enqueue(c.book.Of(vm)...)
	}
}

// concurrency is how many address objects are looked at at the same time: enough for 200 leases a
// second with an API server that takes some milliseconds for each of the two writes.
const concurrency = 16

// Add adds the controller to a manager, with a client that watches.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	ctl, err := controller.New("address", mgr, controller.Options{
		Reconciler: c, MaxConcurrentReconciles: concurrency, RecoverPanic: new(true),
	})
	if err != nil {
		return fmt.Errorf("address controller: %w", err)
	}
	begin := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.mu.Lock()
		c.queue = queue
		c.mu.Unlock()
		c.EnqueueAll()
		return nil
	}
	if err := ctl.Watch(known{begin, c.opts.VMs}); err != nil {
		return fmt.Errorf("address controller: %w", err)
	}
	return mgr.Add(store.Always(func(ctx context.Context) error {
		c.Follow(ctx, watching)
		return nil
	}))
}

// known is the source of address objects. Before the first is looked at the VMs are known: a lease whose VM is
// gone is detached.
type known struct {
	source.Func

	vms VMs
}

// WaitForSync implements source.SyncingSource.
func (k known) WaitForSync(ctx context.Context) error { return k.vms.WaitForSync(ctx) }

// Follow follows addresses and leases until ctx is done, from when on there are ranges.
func (c *Controller) Follow(ctx context.Context, from client.WithWatch) {
	for len(c.opts.Settings().Ranges) == 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	c.book.Follow(ctx, from)
}

// patience is how long VMs wait at most for the leases to be known, when a manager begins.
const patience = 10 * time.Second

// Await waits until the leases are known, if there are ranges, but not for ever: without them
// the manager works, and says so.
func (c *Controller) Await(ctx context.Context) {
	if len(c.opts.Settings().Ranges) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.book.Await(ctx)
}

// unavailable returns why addresses can't be given; "" if they can.
func (c *Controller) unavailable() string {
	err := c.book.Listed()
	switch {
	case err == nil:
		return ""
	case len(c.opts.Settings().Ranges) == 0:
		return "the manager's configuration has no virtualMachineCIDRs, so there are no addresses: ask the administrator"
	case apierrors.IsForbidden(err):
		return "the manager may not " + err.Error() + ": the administrator applies deploy/manager/cluster-account.yaml"
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "the API server doesn't know addresses (" + err.Error() + "): the administrator applies deploy/crds"
	}
	return "addresses are not known: " + err.Error()
}

// waiting is who waits for a change of what, by name.
type waiting struct {
	mu  sync.Mutex
	all map[string]map[string]bool
}

func (w *waiting) add(what, who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[what] == nil {
		w.all[what] = map[string]bool{}
	}
	w.all[what][who] = true
}

// remove returns who waits, which no longer waits then.
func (w *waiting) remove(what string) []string { return w.removeSome(what, math.MaxInt) }

// removeSome is remove for so many at most, whichever they are.
func (w *waiting) removeSome(what string, most int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var some []string
	for who := range w.all[what] {
		if len(some) == most {
			break
		}
		some = append(some, who)
		delete(w.all[what], who)
	}
	if len(w.all[what]) == 0 {
		delete(w.all, what)
	}
	return some
}
