package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/decide"
)

// Attached is the address of a VM.
type Attached struct {
	// Name is that of the address object that the VM has; "": none.
	Name string
	// Lease is what the guest is to get; nil: nothing.
	Lease *addresses.Lease
	// Unknown means that it isn't known what the guest is to get, which is an obstacle. The
	// configuration of a VM that is running stays as it is.
	Unknown bool
}

// When it is tried again to give a VM an address: without knowing the leases, and after
// another process has changed one.
const (
	unlistedRetry = 5 * time.Second
	conflictRetry = 100 * time.Millisecond
)

// Attach gives a VM the address that it is to have. It writes twice for a VM that is new.
func (c *Controller) Attach(ctx context.Context, vm *v1.VirtualMachine) (got Attached, did decide.Report) {
	ranges, had := c.opts.Settings().Ranges, vm.Status.VirtualMachineIPAddressName
	name, automatic := addresses.NameFor(vm, ranges)
	why := ""
	if name != "" || had != "" {
		why = c.unavailable()
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
		lease, o, err := c.attach(ctx, vm, name, automatic)
		if err != nil {
			got.Name = had
			if errors.Is(err, errNoneFree) {
				c.waiting.add(anyForVM, vm.Name)
			}
			o, err = c.obstacle(err)
		}
		did.Stop(o, err)
		if lease != nil && err == nil && o == nil {
			got.Name = name
			got.Lease = ranges.Lease(addresses.AddressOf(lease.Name))
			did.Stop(outOfRange(name, lease, got.Lease), nil)
		}
	}
	got.Unknown = did.Obstacle != nil
	if keeps, err := c.keeps(vm, name); keeps || err != nil {
		got.Name = had
		did.Stop(nil, err)
	}
	return got, did
}

// outOfRange returns why a VM can't be started whose address is in no range; nil if it is in one.
func outOfRange(name string, lease *v1.VirtualMachineIPAddressLease, known *addresses.Lease) decide.Obstacle {
	if known != nil {
		return nil
	}
	return decide.Stalled{Reason: addresses.ReasonOutOfRange, Message: fmt.Sprintf(
		"the address %s of the VirtualMachineIPAddress %s is in none of the ranges of the manager's configuration: "+
			"name another in spec.virtualMachineIPAddressName, or ask the administrator to add its range with retired: true",
		addresses.AddressOf(lease.Name), name)}
}

// obstacle returns what an error means for a VM.
func (c *Controller) obstacle(err error) (decide.Obstacle, error) {
	switch {
	case errors.Is(err, errNoneFree):
		return decide.Waiting{
			Reason: addresses.ReasonNoneFree, Message: decide.Readable(err.Error()), Until: c.opts.Now().Add(retryFull),
		}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // it is looked at again with what is new
		return decide.Waiting{
			Reason: decide.ReasonRetrying, Message: decide.Readable(err.Error()),
			Until: c.opts.Now().Add(conflictRetry),
		}, nil
	}
	return decide.Refused(err), err
}

// attach returns the lease of a VM, and nil and an obstacle if it has none.
func (c *Controller) attach(ctx context.Context, vm *v1.VirtualMachine, name string, automatic bool) (
	*v1.VirtualMachineIPAddressLease, decide.Obstacle, error,
) {
	a, lease, own, err := c.known(name)
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
			_, err = c.create(ctx, vm, name, lease)
		}
		return lease, nil, err
	case addresses.ForAttach:
		lease, err := c.bind(ctx, lease, name, vm.Name)
		if err == nil {
			err = c.publish(ctx, a, addresses.StatusOf(lease, c.opts.Settings().Ranges))
		}
		return lease, nil, err
	case addresses.ForWait:
		c.waiting.add(name, vm.Name)
		return nil, decide.Waiting{Reason: reason, Message: message}, nil
	}
	return lease, nil, nil
}

// leaseFor returns the lease for an address object that has none yet: one that was left of
// it, or any.
func (c *Controller) leaseFor(ctx context.Context, ref v1.IPAddressRef, own []*v1.VirtualMachineIPAddressLease,
	vm string,
) (*v1.VirtualMachineIPAddressLease, error) {
	ranges := c.opts.Settings().Ranges
	own = slices.DeleteFunc(own, func(l *v1.VirtualMachineIPAddressLease) bool {
		return l.Status.Phase == v1.LeaseReleased && ranges.Unusable(addresses.AddressOf(l.Name)) != ""
	})
	if len(own) == 0 {
		return c.allocate(ctx, ref, vm)
	}
	lease := addresses.Lowest(own)
	if lease.Status.Phase == v1.LeaseBound && lease.Status.VirtualMachine == vm {
		return lease, nil
	}
	return c.bind(ctx, lease, ref.Name, vm)
}

// keeps reports whether a VM that is to have the address object of one name still has another
// one, which its status names.
func (c *Controller) keeps(vm *v1.VirtualMachine, name string) (bool, error) {
	former := vm.Status.VirtualMachineIPAddressName
	if former == "" || former == name || c.unavailable() != "" {
		return false, nil
	}
	own, err := c.book.LeasesFor(former)
	for _, lease := range own {
		if lease.Status.VirtualMachine == vm.Name {
			c.enqueue(former)
			c.waiting.add(former, vm.Name)
			return true, nil
		}
	}
	return false, err
}
