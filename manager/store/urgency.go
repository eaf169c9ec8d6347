package store

import v1 "vmop/api/v1"

// Urgency returns the priority of a VM in the controller's queue. VMs with a larger priority come first, and VMs
// with equal priorities in the order of arrival.
//
// A user who creates a thousand VMs waits for a thousand VMs anyway. A user who changes one running VM must not
// wait for them. Work that a VM causes during its creation comes before the creation of the next VM, so that the
// queue holds few requests other than new VMs.
//
// See docs/decisions/0056-urgency.md.
func Urgency(vm *v1.VirtualMachine) int {
	switch {
	case vm.Status.Phase == v1.PhaseRunning, vm.Status.Phase == v1.PhaseMigrating, vm.Status.Phase == v1.PhaseStopping:
		return urgencyRunning
	case vm.Status.ObservedGeneration == 0:
		return urgencyNew
	case vm.Status.ObservedGeneration != vm.Generation:
		return urgencyChanged
	}
	return urgencyKnown
}

// Priorities of VMs. calm is added for VMs that are not known to have changed.
const (
	urgencyRunning = 0   // the library's default
	urgencyChanged = -10 // a user has changed the definition or deleted the VM
	urgencyKnown   = -20
	urgencyNew     = -30 // no manager has seen it

	calm = -100
)
