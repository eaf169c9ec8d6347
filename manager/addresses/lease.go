package addresses

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// Use describes whether a VM uses an address.
type Use int

// The uses.
const (
	Unused Use = iota
	Ending     // only its pod may use it, until the pod is gone or has another address
	Wanted     // the VM needs it
)

// UseOf returns how a VM and its pod use the address of a lease. The VM may need the address, or its pod may use
// it because the pod's runner has not reported another address. vm is nil if it is gone, pod is nil if it does
// not exist. a is the lease's address object, or nil if that is gone.
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

// isFor reports whether a lease contains the address that an object has or may get.
func isFor(lease *v1.VirtualMachineIPAddressLease, a *v1.VirtualMachineIPAddress) bool {
	target := Target(a, nil)
	return !target.IsValid() || target == AddressOf(lease.Name)
}

// usesOther reports whether the runner of a pod has reported that its guest has another address.
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

// SourceLease is the source that runners report for an address that they give to the guest.
const SourceLease = "Lease"

// Next is the next step for a lease.
type Next int

// The steps.
const (
	Keep    Next = iota // no change
	Detach              // detach the address from its VM
	Release             // keep it for its namespace for some time
	Date                // its release time is in the future: set it to now
	Expire              // delete it
)

// NextOf returns the next step for a lease, and when to check again; the zero time means after a change. a is the
// lease's address object, or nil if that is gone. retention is how long a released lease is kept.
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

// lookAgain is the maximum delay until the manager notices that the pod with an address is gone.
const lookAgain = 10 * time.Second

func afterRelease(lease *v1.VirtualMachineIPAddressLease, retention time.Duration, now time.Time) (Next, time.Time) {
	at := lease.Status.ReleaseTime
	switch {
	case at == nil || now.Add(time.Minute).Before(at.Time): // the managers' clocks may differ slightly
		return Date, time.Time{}
	case at.Add(retention).After(now):
		return Keep, at.Add(retention)
	}
	return Expire, time.Time{}
}
