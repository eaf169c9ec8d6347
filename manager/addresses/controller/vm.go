package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/vm/decide"
)

// Attached is the address of a VM.
type Attached struct {
	// Name is the name of the VM's address object, or "".
	Name string
	// Lease contains the settings for the guest, or nil.
	Lease *addresses.Lease
	// Unknown means that the settings for the guest are unknown, which is an obstacle. The configuration of a
	// running VM stays unchanged.
	Unknown bool
}

// Delays before trying again to give a VM an address: while the leases are unknown, and after another process has
// changed a lease.
const (
	unlistedRetry = 5 * time.Second
	conflictRetry = 100 * time.Millisecond
)

// Attach gives a VM its address. It writes twice for a new VM.
func (c *Controller) Attach(ctx context.Context, vm *v1.VirtualMachine) (got Attached, did decide.Report) {
	ranges, had := c.opts.Settings().Ranges, vm.Status.VirtualMachineIPAddressName
	name, automatic := addresses.NameFor(vm, ranges)
	why := ""
	if name != "" || had != "" {
		why = c.whyUnavailable()
	}
	switch {
	case name == "" && why != "":
		got.Name = had
		return got, did
	case why != "":
		did.Stop(decide.Waiting{
			Reason: addresses.ReasonNotReady, Message: why, Until: c.opts.Now().Add(unlistedRetry),
		}, nil)
		return Attached{Name: had, Unknown: true}, did
	case name != "":
		lease, o, err := c.attachAddress(ctx, vm, name, automatic)
		if err != nil {
			got.Name = had
			if errors.Is(err, errNoneFree) {
				c.waiting.addWaiting(anyForVM, vm.Name)
			}
			o, err = c.obstacleFor(err)
		}
		did.Stop(o, err)
		if lease != nil && err == nil && o == nil {
			got.Name = name
			got.Lease = ranges.Lease(addresses.AddressOf(lease.Name))
			did.Stop(outOfRange(name, lease, got.Lease), nil)
		}
	}
	got.Unknown = did.Obstacle != nil
	if keeps, err := c.keepsAddress(vm, name); keeps || err != nil {
		got.Name = had
		did.Stop(nil, err)
	}
	return got, did
}

// outOfRange returns the obstacle for a VM with an address that is in no range, or nil.
func outOfRange(name string, lease *v1.VirtualMachineIPAddressLease, known *addresses.Lease) decide.Obstacle {
	if known != nil {
		return nil
	}
	return decide.Stalled{Reason: addresses.ReasonOutOfRange, Message: fmt.Sprintf(
		"the address %s of the VirtualMachineIPAddress %s is in none of the ranges of the manager's configuration: "+
			"name another in spec.virtualMachineIPAddressName, or ask the administrator to add its range with retired: true",
		addresses.AddressOf(lease.Name), name)}
}

// obstacleFor converts an error to an obstacle for a VM.
func (c *Controller) obstacleFor(err error) (decide.Obstacle, error) {
	switch {
	case errors.Is(err, errNoneFree):
		return decide.Waiting{
			Reason: addresses.ReasonNoneFree, Message: decide.Readable(err.Error()), Until: c.opts.Now().Add(retryFull),
		}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // the next reconciliation uses the new version
		return decide.Waiting{
			Reason: decide.ReasonRetrying, Message: decide.Readable(err.Error()),
			Until: c.opts.Now().Add(conflictRetry),
		}, nil
	}
	return decide.Refused(err), err
}

// attachAddress returns the lease of a VM. If the VM must wait, it returns nil and an obstacle.
func (c *Controller) attachAddress(ctx context.Context, vm *v1.VirtualMachine, name string, automatic bool) (
	*v1.VirtualMachineIPAddressLease, decide.Obstacle, error,
) {
	a, lease, own, err := c.knownAddress(name)
	if err != nil {
		return nil, nil, err
	}
	what, reason, message := addresses.ForVM(vm, name, automatic, a, lease)
	switch what {
	case addresses.ForCreate:
		if len(own) == 0 && !c.opts.Settings().Ranges.Leasing() {
			return nil, nil, nil
		}
		lease, err := c.leaseFor(ctx, v1.IPAddressRef{Name: name, Namespace: vm.Namespace}, own, vm.Name)
		if err == nil {
			_, err = c.createAddress(ctx, vm, name, lease)
		}
		return lease, nil, err
	case addresses.ForAttach:
		lease, err := c.bindLease(ctx, lease, name, vm.Name)
		if err == nil {
			err = c.publishAddress(ctx, a, addresses.StatusOf(lease, c.opts.Settings().Ranges))
		}
		return lease, nil, err
	case addresses.ForWait:
		c.waiting.addWaiting(name, vm.Name)
		return nil, decide.Waiting{Reason: reason, Message: message}, nil
	}
	return lease, nil, nil
}

// leaseFor returns the lease for a new address object: an earlier lease of that object, or any free address.
func (c *Controller) leaseFor(ctx context.Context, ref v1.IPAddressRef, own []*v1.VirtualMachineIPAddressLease,
	vm string,
) (*v1.VirtualMachineIPAddressLease, error) {
	ranges := c.opts.Settings().Ranges
	own = slices.DeleteFunc(own, func(l *v1.VirtualMachineIPAddressLease) bool {
		return l.Status.Phase == v1.LeaseReleased && ranges.Unusable(addresses.AddressOf(l.Name)) != ""
	})
	if len(own) == 0 {
		return c.allocateLease(ctx, ref, vm)
	}
	lease := addresses.Lowest(own)
	if lease.Status.Phase == v1.LeaseBound && lease.Status.VirtualMachine == vm {
		return lease, nil
	}
	return c.bindLease(ctx, lease, ref.Name, vm)
}

// keepsAddress reports whether a VM still has the address object in its status, although it needs the address object
// with the given name.
func (c *Controller) keepsAddress(vm *v1.VirtualMachine, name string) (bool, error) {
	former := vm.Status.VirtualMachineIPAddressName
	if former == "" || former == name || c.whyUnavailable() != "" {
		return false, nil
	}
	own, err := c.book.LeasesFor(former)
	for _, lease := range own {
		if lease.Status.VirtualMachine == vm.Name {
			c.requests.Enqueue(former)
			c.waiting.addWaiting(former, vm.Name)
			return true, nil
		}
	}
	return false, err
}
