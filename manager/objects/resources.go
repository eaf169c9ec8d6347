package objects

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// What QEMU, the runner and swtpm need besides the guest's memory: code, heaps and
// firmware; a thread for each CPU; page tables of the whole memory.
const (
	ownMemory    = 96 << 20
	memoryPerCPU = 4 << 20
	pageTables   = 512 // bytes of memory for one of page table
)

// resources returns what the pod's container requests: what the VM says, or what
// follows from its current CPUs and memory. There are no limits unless the VM has
// some: one of memory would end a guest that gets more.
func resources(vm *v1.VirtualMachine, s Settings, r *rights) *applycorev1.ResourceRequirementsApplyConfiguration {
	limits, requests := corev1.ResourceList{}, computed(vm, s)
	if own := vm.Spec.Resources; own != nil {
		limits, requests = own.Limits.DeepCopy(), own.Requests.DeepCopy()
	}
	if r.kvm {
		if limits == nil {
			limits = corev1.ResourceList{}
		}
		limits[corev1.ResourceName(s.KVMResource)] = resource.MustParse("1")
	}
	c := applycorev1.ResourceRequirements()
	if len(limits) > 0 {
		c.WithLimits(limits)
	}
	if len(requests) > 0 {
		c.WithRequests(requests)
	}
	return c
}

// Requests says what the pod of a VM requests, and why, for people. It is empty for
// one that requests nothing.
func Requests(vm *v1.VirtualMachine, s Settings) string {
	r := rightsOf(vm, s)
	all := resources(vm, s, r)
	requests := corev1.ResourceList{}
	for _, list := range []*corev1.ResourceList{all.Limits, all.Requests} { // what has a limit only, requests that
		if list != nil {
			maps.Copy(requests, *list)
		}
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		quantity := requests[name]
		texts = append(texts, string(name)+" "+quantity.String())
	}
	switch {
	case len(texts) == 0:
		return ""
	case vm.Spec.Resources != nil:
		return "the pod requests " + strings.Join(texts, ", ") + " (spec.resources)"
	}
	ram := resource.NewQuantity(currentRAM(vm), resource.BinarySI)
	return fmt.Sprintf("the pod requests %s (computed from spec.vm: %d CPUs and %s of RAM are current; spec.resources can say otherwise)",
		strings.Join(texts, ", "), currentCPUs(vm), ram)
}

func computed(vm *v1.VirtualMachine, s Settings) corev1.ResourceList {
	milliCPUs := float64(currentCPUs(vm)) * 1000 / max(1, s.CPUOvercommit)
	memory := int64(float64(currentRAM(vm))/max(1, s.RAMOvercommit)) + overhead(vm)
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(max(1, int64(milliCPUs)), resource.DecimalSI),
		corev1.ResourceMemory: wholeMebibytes(memory),
	}
}

// wholeMebibytes rounds up.
func wholeMebibytes(bytes int64) resource.Quantity {
	const mebibyte = 1 << 20
	return *resource.NewQuantity((bytes+mebibyte-1)/mebibyte*mebibyte, resource.BinarySI)
}

// overhead is what a VM takes besides the memory of its guest, in bytes.
func overhead(vm *v1.VirtualMachine) int64 {
	return ownMemory + int64(maximumCPUs(vm))*memoryPerCPU + maximumRAM(vm)/pageTables
}

func maximumCPUs(vm *v1.VirtualMachine) int32 {
	switch m := &vm.Spec.VM; {
	case m.MaximumCPUs != nil:
		return *m.MaximumCPUs
	case m.CPUTopology != nil:
		t := m.CPUTopology
		return max(1, t.Sockets) * max(1, t.DiesPerSocket) * max(1, t.CoresPerDie) * max(1, t.ThreadsPerCore)
	}
	return 1
}

func currentCPUs(vm *v1.VirtualMachine) int32 {
	if n := vm.Spec.VM.CurrentCPUs; n != nil {
		return *n
	}
	return maximumCPUs(vm)
}

func maximumRAM(vm *v1.VirtualMachine) int64 {
	if q := vm.Spec.VM.MaximumRAM; q != nil {
		return q.Value()
	}
	return 1_000_000_000 // the default, "1G"
}

func currentRAM(vm *v1.VirtualMachine) int64 {
	if q := vm.Spec.VM.CurrentRAM; q != nil {
		return q.Value()
	}
	return maximumRAM(vm)
}
