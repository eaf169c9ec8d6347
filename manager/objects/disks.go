package objects

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/vmspec"
)

// Size returns a spec that has only the CPUs and the memory of a VM, with their defaults. It is
// called for every VM of a list: vmspec's WithDefaults takes ten times as long.
func Size(vm *v1.VirtualMachine) (vmspec.Spec, error) {
	s, err := size(vm)
	if vm.Spec.VM.CPUTopology != nil {
		s.MaximumCPUs = max(1, s.Sockets) * max(1, s.DiesPerSocket) * max(1, s.CoresPerDie) * max(1, s.ThreadsPerCore)
	}
	s.CurrentCPUs = cmp.Or(s.CurrentCPUs, s.MaximumCPUs)
	s.CurrentRAM = cmp.Or(s.CurrentRAM, s.MaximumRAM)
	return s, err
}

// A Disk is a disk of a VM, as its definition has it.
type Disk struct {
	// Claim is the name that a new claim gets.
	Claim string
	// Size is what the claim is to request, such as 40Gi; "" if it doesn't say.
	Size string
}

// Disks returns the disks of a VM.
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
