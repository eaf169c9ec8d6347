package store

import v1 "vmop/api/v1"

// Urgency returns the priority of a VM in the controller's queue. A larger one comes
// first, and among equals who came first.
//
// Whoever creates a thousand VMs waits for a thousand VMs anyway; a user who changes one
// that is running must not wait for them, too. What a VM causes while it is being created
// comes before the creation of the next one, so that the queue holds new VMs, and little
// else.
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

// Priorities of VMs. With calm added they are those of VMs of which nothing is known to
// have changed.
const (
	urgencyRunning = 0   // as the library's default
	urgencyChanged = -10 // a user has changed the definition, or deleted the VM
	urgencyKnown   = -20
	urgencyNew     = -30 // no manager has seen it

	calm = -100
)
