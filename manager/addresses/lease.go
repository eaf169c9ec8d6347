package addresses

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// A Use is whether a VM has an address.
type Use int

// The uses.
const (
	Unused Use = iota
	Ending     // only its pod may use it, until it is gone or has another one
	Wanted     // the VM is to have it
)

// UseOf returns whether a VM, nil if it is gone, or its pod, nil if there is none, uses the
// address of a lease: the VM is to have it, or the pod's runner has not said that it has
// another one. a is the address object that the lease is for, nil if it is gone.
func UseOf(vm *v1.VirtualMachine, pod *corev1.Pod, lease *v1.VirtualMachineIPAddressLease,
	a *v1.VirtualMachineIPAddress, r Ranges,
) Use {
	if vm != nil {
		wanted, _ := NameFor(vm, r)
		if wanted == lease.Spec.VirtualMachineIPAddressRef.Name && (a == nil || isFor(lease, a)) {
			return Wanted
		}
	}
	if pod == nil || vm != nil && usesOther(vm, pod, AddressOf(lease.Name).String()) {
		return Unused
	}
	return Ending
}

// isFor reports whether a lease is of the address that an object has, or may get.
func isFor(lease *v1.VirtualMachineIPAddressLease, a *v1.VirtualMachineIPAddress) bool {
	target := Target(a, nil)
	return !target.IsValid() || target == AddressOf(lease.Name)
}

// usesOther reports whether the runner of a pod has said that its guest has another address.
func usesOther(vm *v1.VirtualMachine, pod *corev1.Pod, address string) bool {
	if vm.Status.Runner == nil || vm.Status.Runner.PodUID != pod.UID {
		return false
	}
	other := false
	for _, a := range vm.Status.Addresses {
		if a.Source == SourceLease {
			if a.Address == address {
				return false
			}
			other = true
		}
	}
	return other
}

// SourceLease is what runners call the source of an address that they give to the guest.
const SourceLease = "Lease"

// A Next is what becomes of a lease.
type Next int

// The possibilities.
const (
	Keep    Next = iota // nothing
	Detach              // no VM has the address any more
	Release             // it is kept for its namespace, for some time
	Date                // its release was in the future: it is now
	Expire              // it goes
)

// NextOf returns what becomes of a lease, and when to look again; zero: when something
// changes. a is the address object that the lease is for, nil if it is gone; retention is how long a
// released lease is kept.
func NextOf(lease *v1.VirtualMachineIPAddressLease, a *v1.VirtualMachineIPAddress, use Use, retention time.Duration,
	now time.Time,
) (next Next, again time.Time) {
	its := a != nil && isFor(lease, a)
	switch {
	case lease.Status.Phase == v1.LeaseReleased && its:
		return Keep, time.Time{} // the address object takes it
	case lease.Status.Phase == v1.LeaseReleased:
		return afterRelease(lease, retention, now)
	case use == Ending || use == Wanted && a == nil:
		return Keep, now.Add(lookAgain)
	case !its:
		return Release, time.Time{}
	case use == Unused && lease.Status.VirtualMachine != "":
		return Detach, time.Time{}
	}
	return Keep, time.Time{}
}

// lookAgain is how long it takes at most to see that a pod is gone that had an address.
const lookAgain = 10 * time.Second

func afterRelease(lease *v1.VirtualMachineIPAddressLease, retention time.Duration, now time.Time) (Next, time.Time) {
	at := lease.Status.ReleaseTime
	switch {
	case at == nil || now.Add(time.Minute).Before(at.Time): // clocks of managers differ a little
		return Date, time.Time{}
	case at.Add(retention).After(now):
		return Keep, at.Add(retention)
	}
	return Expire, time.Time{}
}
