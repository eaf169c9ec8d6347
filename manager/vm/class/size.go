package class

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/vmspec"
)

// SizeOf returns the CPUs and memory that a VM sets; vmspec contains the defaults (Spec.WithSize). The rest of the
// definition may be invalid.
func SizeOf(vm *v1.VirtualMachine) (s vmspec.Spec, err error) {
	m := &vm.Spec.VM
	s.MaximumCPUs, s.CurrentCPUs = numberOf(m.MaximumCPUs), numberOf(m.CurrentCPUs)
	if t := m.CPUTopology; t != nil {
		s.Sockets, s.DiesPerSocket = int(t.Sockets), int(t.DiesPerSocket)
		s.CoresPerDie, s.ThreadsPerCore = int(t.CoresPerDie), int(t.ThreadsPerCore)
	}
	if s.MaximumRAM, err = memoryBytes("maximumRam", m.MaximumRAM); err != nil {
		return s, err
	}
	s.CurrentRAM, err = memoryBytes("currentRam", m.CurrentRAM)
	return s, err
}

func numberOf(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// memoryBytes converts a memory size to whole mebibytes.
func memoryBytes(key string, q *resource.Quantity) (vmspec.Bytes, error) {
	if q == nil {
		return 0, nil
	}
	size := vmspec.Bytes(q.Value()).WholeMiB()
	if size <= 0 {
		return 0, fmt.Errorf("spec.vm.%s is %s: must be at least 1Mi", key, q)
	}
	return size, nil
}
