package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/store/publish"
	"vmop/manager/vm/objects"
)

// owner is the owner of the fields that the manager writes.
const owner = publish.Owner

// errNoneFree means that all addresses of the ranges are leased.
var errNoneFree = errors.New("no address is free")

// mostTries is the maximum number of consecutive attempts that fail because another manager has leased the
// address first.
const mostTries = 32

// allocateLease leases a random free address.
func (c *Controller) allocateLease(ctx context.Context, ref v1.IPAddressRef, vm string) (
	*v1.VirtualMachineIPAddressLease, error,
) {
	ranges, refused := c.opts.Settings().Ranges, map[netip.Addr]bool{}
	taken := func(a netip.Addr) bool { return refused[a] || c.book.Leased(a) }
	for range mostTries {
		address, ok := ranges.Free(c.opts.Random, taken)
		if !ok {
			return nil, fmt.Errorf("%w: all of %s are leased", errNoneFree, ranges)
		}
		lease, err := c.createLease(ctx, address, ref, vm)
		if !apierrors.IsAlreadyExists(err) {
			return lease, err
		}
		refused[address] = true // the watch will deliver the lease
	}
	return nil, fmt.Errorf("lease an address: %d were leased by others meanwhile", mostTries)
}

// createLease creates the lease of an address. If IsAlreadyExists holds for the error, the address is already leased.
func (c *Controller) createLease(ctx context.Context, address netip.Addr, ref v1.IPAddressRef, vm string) (
	*v1.VirtualMachineIPAddressLease, error,
) {
	lease := &v1.VirtualMachineIPAddressLease{ObjectMeta: metav1.ObjectMeta{Name: addresses.LeaseName(address)}}
	lease.Spec.VirtualMachineIPAddressRef = ref
	lease.Status = v1.VirtualMachineIPAddressLeaseStatus{Phase: v1.LeaseBound, VirtualMachine: vm}
	if lease.OwnerReferences = c.namespaceOwner(ctx); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := c.opts.Client.Create(ctx, lease, owner); err != nil {
		return nil, fmt.Errorf("create the lease of %s: %w", address, err)
	}
	return lease, c.book.Learn(lease.DeepCopy())
}

// namespaceOwner returns the owner reference that deletes leases together with their namespace, because the
// namespace's manager is deleted with it.
func (c *Controller) namespaceOwner(ctx context.Context) []metav1.OwnerReference {
	c.mu.Lock()
	uid := c.namespace
	c.mu.Unlock()
	if uid == "" { // read without the lock, because the watches need it
		is := &corev1.Namespace{}
		if err := c.opts.Live.Get(ctx, client.ObjectKey{Name: c.opts.Namespace}, is); err != nil {
			return nil // without the right to read it, leases stay until an administrator deletes them
		}
		uid = is.UID
		c.mu.Lock()
		c.namespace = uid
		c.mu.Unlock()
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: c.opts.Namespace, UID: uid}}
}

// bindLease binds a released lease, or attaches its address to a VM, or detaches it if vm is "".
func (c *Controller) bindLease(ctx context.Context, lease *v1.VirtualMachineIPAddressLease, name, vm string) (
	*v1.VirtualMachineIPAddressLease, error,
) {
	return c.patchLease(ctx, lease, map[string]any{
		"spec":   map[string]any{"virtualMachineIPAddressRef": map[string]any{"name": name}},
		"status": map[string]any{"phase": v1.LeaseBound, "virtualMachine": orNull(vm), "releaseTime": nil},
	})
}

// releaseLease keeps a lease for the namespace from now on.
func (c *Controller) releaseLease(ctx context.Context, lease *v1.VirtualMachineIPAddressLease, now time.Time) (
	*v1.VirtualMachineIPAddressLease, error,
) {
	return c.patchLease(ctx, lease, map[string]any{"status": map[string]any{
		"phase": v1.LeaseReleased, "virtualMachine": nil, "releaseTime": metav1.NewTime(now),
	}})
}

func (c *Controller) patchLease(ctx context.Context, lease *v1.VirtualMachineIPAddressLease, what map[string]any) (
	*v1.VirtualMachineIPAddressLease, error,
) {
	next := &v1.VirtualMachineIPAddressLease{}
	if err := c.patchUnchanged(ctx, lease, next, what); err != nil {
		return nil, fmt.Errorf("change the lease %s: %w", lease.Name, err)
	}
	return next, nil
}

// expireLease deletes a lease, unless it has been taken in the meantime.
func (c *Controller) expireLease(ctx context.Context, lease *v1.VirtualMachineIPAddressLease) error {
	err := c.opts.Client.Delete(ctx, lease,
		client.Preconditions{UID: new(lease.UID), ResourceVersion: new(lease.ResourceVersion)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the lease %s: %w", lease.Name, err)
	}
	return c.book.Forget(lease)
}

// createAddress creates the address object of a VM.
func (c *Controller) createAddress(ctx context.Context, vm *v1.VirtualMachine, name string,
	lease *v1.VirtualMachineIPAddressLease,
) (*v1.VirtualMachineIPAddress, error) {
	a := &v1.VirtualMachineIPAddress{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: vm.Namespace, Labels: objects.Labels(vm),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(vm, v1.GroupVersion().WithKind("VirtualMachine")),
		},
	}}
	a.Spec.Type = v1.IPAddressAuto
	a.Status = addresses.StatusOf(lease, c.opts.Settings().Ranges)
	if err := c.opts.Client.Create(ctx, a, owner); err != nil {
		return nil, fmt.Errorf("create the VirtualMachineIPAddress %s: %w", name, err)
	}
	return a, c.book.Learn(a.DeepCopy())
}

// publishAddress writes the status of an address object if it differs.
func (c *Controller) publishAddress(ctx context.Context, a *v1.VirtualMachineIPAddress,
	s v1.VirtualMachineIPAddressStatus,
) error {
	if a.Status == s {
		return nil
	}
	err := c.patchUnchanged(ctx, a, &v1.VirtualMachineIPAddress{}, map[string]any{"status": map[string]any{
		"phase": s.Phase, "address": orNull(s.Address), "virtualMachine": orNull(s.VirtualMachine),
		"reason": orNull(s.Reason), "message": orNull(s.Message),
	}})
	if err != nil {
		return fmt.Errorf("write the status of the VirtualMachineIPAddress %s: %w", a.Name, err)
	}
	return nil
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// patchUnchanged changes an object, and stores the new version. It fails if the object has changed since it was read.
// next must be empty, because fields that are missing from the answer would keep their values.
func (c *Controller) patchUnchanged(ctx context.Context, is, next client.Object, what map[string]any) error {
	what["metadata"] = map[string]any{"resourceVersion": is.GetResourceVersion(), "uid": is.GetUID()}
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	next.SetName(is.GetName())
	next.SetNamespace(is.GetNamespace())
	if err := c.opts.Client.Patch(ctx, next, client.RawPatch(types.MergePatchType, text), owner); err != nil {
		if apierrors.IsNotFound(err) {
			return errors.Join(err, c.book.Forget(is))
		}
		return err
	}
	return c.book.Learn(next.DeepCopyObject().(client.Object))
}
