package controller

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

// Delays before repeating checks that no event triggers.
const (
	retryFull  = time.Minute // while a range is full
	retryStale = time.Second // for the watch to deliver a change
)

// knownAddress returns an address object, the lease of the address that it has or requests, and all its leases; nil if
// they do not exist.
func (c *Controller) knownAddress(name string) (a *v1.VirtualMachineIPAddress, lease *v1.VirtualMachineIPAddressLease,
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

// Reconcile performs the next steps for an address object and its leases, even if the object has been deleted.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if c.whyUnavailable() != "" {
		return reconcile.Result{RequeueAfter: unlistedRetry}, nil
	}
	a, lease, own, err := c.knownAddress(request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	var again time.Duration
	if a != nil && a.DeletionTimestamp == nil {
		if again, err = c.serveAddress(ctx, a, lease, own); err != nil {
			return afterStale(err)
		}
	}
	for _, lease := range own {
		after, err := c.followLease(ctx, lease, a)
		if err != nil {
			return afterStale(err)
		}
		if again == 0 || after > 0 && after < again {
			again = after
		}
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// afterStale converts an error to a result. Errors that mean that the watch will deliver a change cause only a
// quick repetition.
func afterStale(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{}, err
}

// serveAddress gives an address object the requested address, and writes its status.
func (c *Controller) serveAddress(ctx context.Context, a *v1.VirtualMachineIPAddress,
	lease *v1.VirtualMachineIPAddressLease,
	own []*v1.VirtualMachineIPAddressLease,
) (again time.Duration, err error) {
	ranges, address := c.opts.Settings().Ranges, addresses.Target(a, own)
	if !address.IsValid() {
		if lease, err = c.allocateLease(ctx, addresses.RefOf(a), ""); errors.Is(err, errNoneFree) {
			c.waiting.addWaiting(anyForObject, a.Name)
			return retryFull, c.publishAddress(ctx, a, addresses.PendingStatus(addresses.ReasonNoneFree, err.Error()))
		}
		if err != nil {
			return 0, err
		}
		return 0, c.publishAddress(ctx, a, addresses.StatusOf(lease, ranges))
	}
	claim, reason, message := addresses.ClaimOf(a, address, lease, ranges)
	switch claim {
	case addresses.Refused:
		c.waiting.addWaiting(addresses.LeaseName(address), a.Name)
		return 0, c.publishAddress(ctx, a, addresses.PendingStatus(reason, message))
	case addresses.Make:
		lease, err = c.createLease(ctx, address, addresses.RefOf(a), a.Status.VirtualMachine)
	case addresses.Take:
		lease, err = c.bindLease(ctx, lease, a.Name, a.Status.VirtualMachine)
	}
	if err != nil {
		return 0, err
	}
	return 0, c.publishAddress(ctx, a, addresses.StatusOf(lease, ranges))
}

// followLease performs the next step for a lease. a is its address object, or nil if that is gone.
func (c *Controller) followLease(ctx context.Context, lease *v1.VirtualMachineIPAddressLease,
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
		_, err = c.bindLease(ctx, lease, lease.Spec.VirtualMachineIPAddressRef.Name, "")
	case addresses.Release:
		if gone, err := c.isOwnerGone(ctx, lease, a); !gone || err != nil {
			return retryStale, err
		}
		_, err = c.releaseLease(ctx, lease, now)
	case addresses.Date:
		_, err = c.releaseLease(ctx, lease, now)
	case addresses.Expire:
		err = c.expireLease(ctx, lease)
	}
	if !at.IsZero() {
		again = max(at.Sub(now), retryStale)
	}
	return again, err
}

// isOwnerGone reports whether a lease's address object is gone, or has another address. The watch of leases may be
// ahead of the watch of address objects.
func (c *Controller) isOwnerGone(ctx context.Context, lease *v1.VirtualMachineIPAddressLease,
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
