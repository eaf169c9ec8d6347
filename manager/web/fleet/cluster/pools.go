package cluster

import (
	"context"
	"errors"
	"time"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/pool"
	poolctl "vmop/manager/pool/controller"
	"vmop/manager/vm/decide"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
)

// pools implements fleet.Pools.
type pools struct{ *Fleet }

// Pools implements fleet.Fleet. The list is empty while pools are not known, or if their resource is not installed.
func (f *Fleet) Pools() fleet.Pools { return pools{f} }

// Pools implements fleet.Pools.
func (f pools) Pools() (all []*fleet.Pool) {
	from := f.opts.Store.Pools()
	members, now := from.Members(), f.opts.Now()
	for _, is := range from.All() {
		p, err := pool.Of(is)
		if err != nil {
			all = append(all, &fleet.Pool{Name: is.Name, Message: err.Error()})
			continue
		}
		all = append(all, describe.Pool(p, members, now))
	}
	return all
}

// assignedTo returns the user of a VM; nil if it has none. Details are missing if the pool isn't known.
func (f *Fleet) assignedTo(vm *v1.VirtualMachine) *fleet.Assigned {
	a := vm.Status.Assignment
	if a == nil {
		return nil
	}
	if is := f.opts.Store.Pools().Pool(a.Pool); is != nil {
		if p, err := pool.Of(is); err == nil {
			return describe.Assigned(p, pool.MemberOf(vm))
		}
	}
	return &fleet.Assigned{Pool: a.Pool, User: a.User, LastUsed: a.LastUsed.Time}
}

// PoolRights returns the input for access decisions about a pool.
func (f *Fleet) PoolRights(name string) access.Pool {
	rights := access.Pool{Name: name}
	if p := f.opts.Store.Pools().Pool(name); p != nil {
		rights.Permissions = p.Spec.Permissions
	}
	return rights
}

// giveTime is the time limit for claiming or releasing a VM.
const giveTime = 20 * time.Second

// Claim implements fleet.Pools.
func (f pools) Claim(ctx context.Context, user, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, giveTime)
	defer cancel()
	machine, _, err := f.opts.Assign.Claim(ctx, user, name)
	if err != nil {
		return "", ofPool(err)
	}
	vm, err := f.findVM(machine)
	if err != nil || vm.Spec.DesiredState() == v1.Running && vm.Status.Phase != v1.PhaseFailed {
		return machine, err
	}
	return machine, f.createOperation(ctx, user, vm, v1.VirtualMachineOperationSpec{
		Type: v1.OperationStart, VirtualMachineName: machine,
	})
}

// Release implements fleet.Pools.
func (f pools) Release(ctx context.Context, user, vm string) error {
	ctx, cancel := context.WithTimeout(ctx, giveTime)
	defer cancel()
	return ofPool(f.opts.Assign.Release(ctx, decide.User(user), vm))
}

// ofPool converts an error for pages.
func ofPool(err error) error {
	switch {
	case errors.Is(err, poolctl.ErrNoPool):
		return fleet.ErrNotFound
	case errors.Is(err, poolctl.ErrNone), errors.Is(err, poolctl.ErrNotAssigned):
		return fleet.Refusal(err.Error())
	case err != nil:
		return asRefusal(err)
	}
	return nil
}
