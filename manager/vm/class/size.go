package class

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/vmspec"
)

// SizeOf returns the CPUs and memory that a VM sets, or that its type decided for it; vmspec contains the defaults
// (Spec.WithSize). The rest of the definition may be invalid.
func SizeOf(vm *v1.VirtualMachine) (s vmspec.Spec, err error) {
	if s, err = givenSize(vm); err != nil || vm.Status.TypeSizes == nil {
		return s, err
	}
	t := vm.Status.TypeSizes
	return s.FillSizes(vmspec.Sizes{
		MaximumCPUs: numberOf(t.MaximumCPUs), CurrentCPUs: numberOf(t.CurrentCPUs),
		MaximumRAM: vmspec.Bytes(quantityBytes(t.MaximumRAM)), CurrentRAM: vmspec.Bytes(quantityBytes(t.CurrentRAM)),
	}), nil
}

// givenSize returns the CPUs and memory that a VM sets.
func givenSize(vm *v1.VirtualMachine) (s vmspec.Spec, err error) {
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

// TypeSizes returns the sizes that a type decided for the status of a VM, or nil if it decided none.
func TypeSizes(sizes vmspec.Sizes) *v1.TypeSizes {
	if sizes == (vmspec.Sizes{}) {
		return nil
	}
	return &v1.TypeSizes{
		MaximumCPUs: cpusOf(sizes.MaximumCPUs), CurrentCPUs: cpusOf(sizes.CurrentCPUs),
		MaximumRAM: ramOf(sizes.MaximumRAM), CurrentRAM: ramOf(sizes.CurrentRAM),
	}
}

// WithoutTypeSizes returns the VM as its type sees it when it decides sizes. It makes a shallow copy if necessary.
func WithoutTypeSizes(vm *v1.VirtualMachine) *v1.VirtualMachine {
	if vm.Status.TypeSizes == nil {
		return vm
	}
	without := *vm
	without.Status.TypeSizes = nil
	return &without
}

func cpusOf(n int) *int32 {
	if n == 0 {
		return nil
	}
	return new(int32(n))
}

func ramOf(size vmspec.Bytes) *resource.Quantity {
	if size == 0 {
		return nil
	}
	return resource.NewQuantity(int64(size), resource.BinarySI)
}
