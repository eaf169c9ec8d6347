package leases

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
)

// Times after which it is looked again at what nothing tells of.
const (
	retryFull  = time.Minute // after which a full range is tried again
	retryStale = time.Second // for what the watch is about to bring
)

// known returns an address object, the lease of the address that it has or asks for, and all
// leases that are for it; nil if they don't exist.
func (c *Controller) known(name string) (a *v1.VirtualMachineIPAddress, lease *v1.VirtualMachineIPAddressLease,
	own []*v1.VirtualMachineIPAddressLease, err error,
) {
	if a, err = c.book.Address(name); err != nil {
		return nil, nil, nil, err
	}
	if own, err = c.book.LeasesFor(name); err != nil || a == nil {
		return a, nil, own, err
	}
	if address := addresses.Target(a, own); address.IsValid() {
		lease, err = c.book.Lease(address)
	}
	return a, lease, own, err
}

// Reconcile does what there is to do for an address object and the leases that are for it, be
// it gone or not.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if c.unavailable() != "" {
		return reconcile.Result{RequeueAfter: unlistedRetry}, nil
	}
	a, lease, own, err := c.known(request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	var again time.Duration
	if a != nil && a.DeletionTimestamp == nil {
		if again, err = c.serve(ctx, a, lease, own); err != nil {
			return afterStale(err)
		}
	}
	for _, lease := range own {
		after, err := c.follow(ctx, lease, a)
		if err != nil {
			return afterStale(err)
		}
		if again == 0 || after > 0 && after < again {
			again = after
		}
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// afterStale returns what becomes of an error. One that means that the watch is about to bring
// something else is none: it is looked at again soon.
func afterStale(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{}, err
}

// serve gives an address object what it asks for, and says in its status what it has.
func (c *Controller) serve(ctx context.Context, a *v1.VirtualMachineIPAddress, lease *v1.VirtualMachineIPAddressLease,
	own []*v1.VirtualMachineIPAddressLease,
) (again time.Duration, err error) {
	ranges, address := c.opts.Settings().Ranges, addresses.Target(a, own)
	if !address.IsValid() {
		if lease, err = c.allocate(ctx, addresses.RefOf(a), ""); errors.Is(err, errNoneFree) {
			c.waiting.add(anyForObject, a.Name)
			return retryFull, c.publish(ctx, a, addresses.PendingStatus(addresses.ReasonNoneFree, err.Error()))
		}
		if err != nil {
			return 0, err
		}
		return 0, c.publish(ctx, a, addresses.StatusOf(lease, ranges))
	}
	claim, reason, message := addresses.ClaimOf(a, address, lease, ranges)
	switch claim {
	case addresses.Refused:
		c.waiting.add(addresses.LeaseName(address), a.Name)
		return 0, c.publish(ctx, a, addresses.PendingStatus(reason, message))
	case addresses.Make:
		lease, err = c.make(ctx, address, addresses.RefOf(a), a.Status.VirtualMachine)
	case addresses.Take:
		lease, err = c.bind(ctx, lease, a.Name, a.Status.VirtualMachine)
	}
	if err != nil {
		return 0, err
	}
	return 0, c.publish(ctx, a, addresses.StatusOf(lease, ranges))
}

// follow does what becomes of a lease; a is the address object that it is for, nil if it is
// gone.
func (c *Controller) follow(ctx context.Context, lease *v1.VirtualMachineIPAddressLease,
	a *v1.VirtualMachineIPAddress,
) (
	again time.Duration, err error,
) {
	s, now := c.opts.Settings(), c.opts.Now()
	var vm *v1.VirtualMachine
	var pod *corev1.Pod
	if name := lease.Status.VirtualMachine; name != "" {
		if vm, err = c.opts.VMs.VM(name); err != nil {
			return 0, err
		}
		if pod, err = c.opts.VMs.Pod(name); err != nil {
			return 0, err
		}
	}
	next, at := addresses.NextOf(lease, a, addresses.UseOf(vm, pod, lease, a, s.Ranges), s.LeaseRetention, now)
	switch next {
	case addresses.Detach:
		_, err = c.bind(ctx, lease, lease.Spec.VirtualMachineIPAddressRef.Name, "")
	case addresses.Release:
		if gone, err := c.isGone(ctx, lease, a); !gone || err != nil {
			return retryStale, err
		}
		_, err = c.release(ctx, lease, now)
	case addresses.Date:
		_, err = c.release(ctx, lease, now)
	case addresses.Expire:
		err = c.expire(ctx, lease)
	}
	if !at.IsZero() {
		again = max(at.Sub(now), retryStale)
	}
	return again, err
}

// isGone reports whether the address object is gone that a lease is for, or has another
// address. The watch of leases may be ahead of that of address objects.
func (c *Controller) isGone(ctx context.Context, lease *v1.VirtualMachineIPAddressLease,
	a *v1.VirtualMachineIPAddress,
) (
	bool, error,
) {
	if a != nil {
		return true, nil
	}
	key := client.ObjectKey{Namespace: c.opts.Namespace, Name: lease.Spec.VirtualMachineIPAddressRef.Name}
	err := c.opts.Live.Get(ctx, key, &v1.VirtualMachineIPAddress{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}
