package objects

import (
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// Disk is a disk in a VM's definition.
type Disk struct {
	// Claim is the name for a new claim.
	Claim string
	// Size that the claim requests, for example 40Gi; "" if the definition contains no size.
	Size string
}

// Disks returns the VM's disks with a claim template.
func Disks(vm *v1.VirtualMachine) (all []Disk) {
	for _, c := range claimsOf(vm) {
		if c.disk == nil {
			continue // the runner's data
		}
		d := Disk{Claim: c.name}
		if storage, given := c.disk.Spec.Resources.Requests[corev1.ResourceStorage]; given {
			d.Size = storage.String()
		}
		all = append(all, d)
	}
	return all
}
