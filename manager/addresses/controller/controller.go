package controller

import (
	"context"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/store"
	"vmop/manager/vm/objects"
)

// VMs provides the VMs of the namespace.
type VMs interface {
	// VM returns a VM, or nil if it does not exist. Pod returns the pod that its stateful set has created, or
	// nil.
	VM(name string) (*v1.VirtualMachine, error)
	Pod(vm string) (*corev1.Pod, error)
	// Enqueue requests reconciliations of VMs.
	Enqueue(vms ...string)
	// WaitForSync waits until all VMs and pods are known.
	WaitForSync(ctx context.Context) error
}

// Options configure a Controller.
type Options struct {
	// Namespace of the VMs.
	Namespace string
	// Settings returns the current settings of the manager.
	Settings func() objects.Settings
	// VMs provides the VMs of the namespace.
	VMs VMs
	// Client writes. Live reads from the API server: the namespace, and address objects before a lease is
	// released.
	Client client.Writer
	Live   client.Reader
	// Random returns a number from 0 to below n.
	Random func(n uint64) uint64
	// Now is the clock.
	Now func() time.Time
}

// Controller assigns addresses. See docs/decisions/0097-address-users.md. It is safe for concurrent use.
type Controller struct {
	opts     Options
	book     *store.Addresses
	waiting  waiting
	requests store.Requests

	mu        sync.Mutex
	namespace types.UID // UID of the namespace, once known
}

// New returns a controller with an empty store.
func New(opts Options) *Controller {
	c := &Controller{opts: opts, waiting: waiting{all: map[string]map[string]bool{}}}
	c.book = store.NewAddresses(opts.Namespace, c.noteChange, c.wakeWaiting)
	return c
}

// noteChange requests reconciliations after a change of an address object or its lease.
func (c *Controller) noteChange(address, vm string) {
	c.requests.Enqueue(address)
	vms := c.waiting.removeAll(address)
	if have, err := c.book.Address(address); vm != "" && have == nil && err == nil {
		vms = append(vms, vm)
	}
	c.opts.VMs.Enqueue(vms...)
}

// wakeWaiting requests reconciliations of the objects that wait until a lease is deleted or released.
func (c *Controller) wakeWaiting(lease string) {
	c.requests.Enqueue(c.waiting.removeAll(lease)...)
	if !c.book.Leased(addresses.AddressOf(lease)) {
		c.requests.Enqueue(c.waiting.removeSome(anyForObject, wokenByOne)...)
		c.opts.VMs.Enqueue(c.waiting.removeSome(anyForVM, wokenByOne)...)
	}
}

// Keys for waiting for any address, which are not valid names of objects. wokenByOne limits the number of
// reconciliations when an address becomes free: some of the waiting objects may have been deleted in the
// meantime, and there could be thousands.
const (
	anyForObject = "any/object"
	anyForVM     = "any/vm"
	wokenByOne   = 8
)

// EnqueueAll requests reconciliations of all address objects, after a change of the settings.
func (c *Controller) EnqueueAll() { c.requests.Enqueue(c.book.Names()...) }

// VMChanged requests reconciliations of the addresses of a deleted VM.
func (c *Controller) VMChanged(vm string) {
	if is, err := c.opts.VMs.VM(vm); is == nil && err == nil {
		c.requests.Enqueue(c.book.Of(vm)...)
	}
}

// concurrency is the maximum number of concurrent reconciliations. It is enough for 200 leases per second, if the
// API server takes some milliseconds for each of the two writes.
const concurrency = 16

// Add adds the controller to a manager. watching is a client that can watch. The VMs are known before the first
// reconciliation, because the controller detaches the lease of a missing VM.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	return c.requests.Add(mgr, store.Controlled{
		Name: "address", Namespace: c.opts.Namespace, Reconciler: c, Concurrency: concurrency, EnqueueAll: c.EnqueueAll,
		Await: c.opts.VMs.WaitForSync, Follow: func(ctx context.Context) { c.Follow(ctx, watching) },
	})
}

// Follow watches addresses and leases until ctx is done. It starts once the settings contain ranges.
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

// patience is how long VMs wait for the leases to be listed after a manager has started.
const patience = 10 * time.Second

// Await waits for a limited time until the leases are known, if there are ranges. The manager also works without
// them, and reports that.
func (c *Controller) Await(ctx context.Context) {
	if len(c.opts.Settings().Ranges) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.book.Await(ctx)
}

// whyUnavailable returns the reason why addresses can't be assigned, or "".
func (c *Controller) whyUnavailable() string {
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

// waiting maps the name of an object to the names of the objects that wait for it to change.
type waiting struct {
	mu  sync.Mutex
	all map[string]map[string]bool
}

func (w *waiting) addWaiting(what, who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[what] == nil {
		w.all[what] = map[string]bool{}
	}
	w.all[what][who] = true
}

// removeAll removes and returns all names that wait.
func (w *waiting) removeAll(what string) []string { return w.removeSome(what, math.MaxInt) }

// removeSome removes and returns up to most of the names that wait, in any order.
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
