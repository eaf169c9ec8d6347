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
	"vmop/manager/class"
	"vmop/vmspec"
)

// What QEMU, the runner and swtpm need besides the guest's memory: code, heaps and
// firmware; a thread for each CPU; page tables of all memory.
const (
	ownMemory    = 96 << 20
	memoryPerCPU = 4 << 20
	pageTables   = 512 // bytes of memory for one of page table
)

// resources returns what the pod's container requests: what the VM says, or what
// follows from its current CPUs and memory, or from its core fraction. There are no
// limits unless the VM has some: a limit on memory would kill a guest that gets more.
func resources(vm *v1.VirtualMachine, s Settings, r *rights) (
	*applycorev1.ResourceRequirementsApplyConfiguration, error,
) {
	var limits, requests corev1.ResourceList
	if own := vm.Spec.Resources; own != nil {
		limits, requests = own.Limits.DeepCopy(), own.Requests.DeepCopy()
	} else {
		m, err := size(vm)
		if err != nil {
			return nil, err
		}
		requests = computed(m.WithDefaults(), s)
		if percent := class.Percent(coreFraction(vm)); percent > 0 {
			limits = reserve(requests, m.WithDefaults(), percent)
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

// Requests says what the pod of a VM requests, and why, for people. It is empty for a pod
// that requests nothing, or that can't be made.
func Requests(vm *v1.VirtualMachine, s Settings) string {
	all, err := resources(vm, s, rightsOf(vm, s))
	if err != nil {
		return ""
	}
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
	m, _ := size(vm) // without an error above
	m = m.WithDefaults()
	if fraction := coreFraction(vm); fraction != "" {
		return fmt.Sprintf("the pod requests %s (%s of %d CPUs, spec.cpu.coreFraction)",
			strings.Join(texts, ", "), fraction, m.MaximumCPUs)
	}
	ram := resource.NewQuantity(int64(m.CurrentRAM), resource.BinarySI)
	return fmt.Sprintf("the pod requests %s (computed from the current %d CPUs and %s of RAM in spec.vm; spec.resources overrides it)",
		strings.Join(texts, ", "), m.CurrentCPUs, ram)
}

// size translates what spec.vm says about CPUs and memory. The rest of the definition may
// be faulty: a VM with a fault can be stopped, and so its pod be described.
func size(vm *v1.VirtualMachine) (s vmspec.Spec, err error) {
	m := &vm.Spec.VM
	s.MaximumCPUs, s.CurrentCPUs = number(m.MaximumCPUs), number(m.CurrentCPUs)
	if t := m.CPUTopology; t != nil {
		s.Sockets, s.DiesPerSocket = int(t.Sockets), int(t.DiesPerSocket)
		s.CoresPerDie, s.ThreadsPerCore = int(t.CoresPerDie), int(t.ThreadsPerCore)
	}
	if s.MaximumRAM, err = memory("maximumRam", m.MaximumRAM); err != nil {
		return s, err
	}
	s.CurrentRAM, err = memory("currentRam", m.CurrentRAM)
	return s, err
}

// computed returns the requests for a machine whose size has its defaults.
func computed(m vmspec.Spec, s Settings) corev1.ResourceList {
	milliCPUs := float64(m.CurrentCPUs) * 1000 / max(1, s.CPUOvercommit)
	memory := int64(float64(m.CurrentRAM)/max(1, s.RAMOvercommit)) + overhead(m)
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(max(1, int64(milliCPUs)), resource.DecimalSI),
		corev1.ResourceMemory: wholeMebibytes(memory),
	}
}

// coreFraction returns how much of its CPUs a VM is sure to get; "" if it doesn't say so.
func coreFraction(vm *v1.VirtualMachine) v1.CoreFraction {
	if vm.Spec.CPU == nil || vm.Spec.Resources != nil {
		return ""
	}
	return vm.Spec.CPU.CoreFraction
}

// reserve makes requests those of a machine that is sure to get a fraction of all CPUs that
// it can have, and returns its limits. All of them, with all its memory, are the QoS class
// Guaranteed. The CPUs that the guest has now don't count: their number changes, and the pod
// doesn't.
//
// See docs/decisions/0091-core-fraction.md.
func reserve(requests corev1.ResourceList, m vmspec.Spec, percent int) (limits corev1.ResourceList) {
	requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(m.MaximumCPUs*percent*10), resource.DecimalSI)
	limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(m.MaximumCPUs), resource.DecimalSI)}
	if percent == 100 {
		requests[corev1.ResourceMemory] = wholeMebibytes(int64(m.MaximumRAM) + overhead(m))
		limits[corev1.ResourceMemory] = requests[corev1.ResourceMemory]
	}
	return limits
}

// wholeMebibytes rounds up.
func wholeMebibytes(bytes int64) resource.Quantity {
	const mebibyte = 1 << 20
	return *resource.NewQuantity((bytes+mebibyte-1)/mebibyte*mebibyte, resource.BinarySI)
}

// overhead is what a machine whose size has its defaults takes besides the memory of its
// guest, in bytes.
func overhead(m vmspec.Spec) int64 {
	return ownMemory + int64(m.MaximumCPUs)*memoryPerCPU + int64(m.MaximumRAM)/pageTables
}
