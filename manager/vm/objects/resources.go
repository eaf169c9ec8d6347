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
	"vmop/manager/vm/class"
	"vmop/vmspec"
)

// Memory that QEMU, the runner and swtpm need in addition to the guest's memory: code, heaps and firmware; a thread
// for each CPU; page tables for all memory.
const (
	ownMemory    = 96 << 20
	memoryPerCPU = 4 << 20
	pageTables   = 512 // bytes of memory per byte of page table
)

// containerResources returns the resources of the pod's container: the VM's own resources, or requests that are
// computed from its current CPUs and memory, or from its core fraction. Limits are only set if the VM defines them: a
// memory limit would kill a guest when its memory grows.
func containerResources(vm *v1.VirtualMachine, s Settings, r *rights) (
	*applycorev1.ResourceRequirementsApplyConfiguration, error,
) {
	var limits, requests corev1.ResourceList
	if own := vm.Spec.Resources; own != nil {
		limits, requests = own.Limits.DeepCopy(), own.Requests.DeepCopy()
	} else {
		m, err := class.SizeOf(vm)
		if err != nil {
			return nil, err
		}
		m = m.WithSize()
		requests = computedRequests(m, s)
		if percent := class.Percent(coreFraction(vm)); percent > 0 {
			limits = reserveFraction(requests, m, percent)
		}
	}
	if limits == nil {
		limits = corev1.ResourceList{}
	}
	for _, name := range r.resources {
		limits[corev1.ResourceName(name)] = resource.MustParse("1")
	}
	c := applycorev1.ResourceRequirements()
	if len(limits) > 0 {
		c.WithLimits(limits)
	}
	if len(requests) > 0 {
		c.WithRequests(requests)
	}
	return c, nil
}

// Requests describes for users what the pod of a VM requests, and why. It returns "" if the pod requests no
// resources, or can't be created.
func Requests(vm *v1.VirtualMachine, s Settings) string {
	all, err := containerResources(vm, s, rightsOf(vm, s))
	if err != nil {
		return ""
	}
	requests := corev1.ResourceList{}
	for _, list := range []*corev1.ResourceList{all.Limits, all.Requests} { // a limit alone is also a request
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
	m, _ := class.SizeOf(vm) // the error was checked above
	m = m.WithSize()
	if fraction := coreFraction(vm); fraction != "" {
		return fmt.Sprintf("the pod requests %s (%s of %d CPUs, spec.cpu.coreFraction)",
			strings.Join(texts, ", "), fraction, m.MaximumCPUs)
	}
	ram := resource.NewQuantity(int64(m.CurrentRAM), resource.BinarySI)
	return fmt.Sprintf("the pod requests %s (computed from the current %d CPUs and %s of RAM in spec.vm; spec.resources overrides it)",
		strings.Join(texts, ", "), m.CurrentCPUs, ram)
}

// computedRequests returns the requests for a machine. m must include the defaults of its size.
func computedRequests(m vmspec.Spec, s Settings) corev1.ResourceList {
	milliCPUs := float64(m.CurrentCPUs) * 1000 / max(1, s.CPUOvercommit)
	memory := int64(float64(m.CurrentRAM)/max(1, s.RAMOvercommit)) + overheadBytes(m)
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(max(1, int64(milliCPUs)), resource.DecimalSI),
		corev1.ResourceMemory: wholeMebibytes(memory),
	}
}

// coreFraction returns the guaranteed fraction of the VM's CPUs, or "" if the VM defines none.
func coreFraction(vm *v1.VirtualMachine) v1.CoreFraction {
	if vm.Spec.CPU == nil || vm.Spec.Resources != nil {
		return ""
	}
	return vm.Spec.CPU.CoreFraction
}

// reserveFraction changes requests so that they guarantee a fraction of the machine's maximum CPUs, and returns its
// limits. A fraction of 100 percent includes all memory, so that the pod's QoS class is Guaranteed. The guest's
// current CPUs don't count: their number changes, while the pod stays the same.
//
// See docs/decisions/0091-core-fraction.md.
func reserveFraction(requests corev1.ResourceList, m vmspec.Spec, percent int) (limits corev1.ResourceList) {
	requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(m.MaximumCPUs*percent*10), resource.DecimalSI)
	limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(m.MaximumCPUs), resource.DecimalSI)}
	if percent == 100 {
		requests[corev1.ResourceMemory] = wholeMebibytes(int64(m.MaximumRAM) + overheadBytes(m))
		limits[corev1.ResourceMemory] = requests[corev1.ResourceMemory]
	}
	return limits
}

// wholeMebibytes rounds up to whole mebibytes.
func wholeMebibytes(bytes int64) resource.Quantity {
	const mebibyte = 1 << 20
	return *resource.NewQuantity((bytes+mebibyte-1)/mebibyte*mebibyte, resource.BinarySI)
}

// overheadBytes returns the memory that a machine needs in addition to its guest's memory, in bytes. m must include the
// defaults of its size.
func overheadBytes(m vmspec.Spec) int64 {
	return ownMemory + int64(m.MaximumCPUs)*memoryPerCPU + int64(m.MaximumRAM)/pageTables
}
