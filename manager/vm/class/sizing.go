package class

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/vmspec"
)

// size is how large a VM can become, which sizing policies restrict.
type size struct {
	cores  int64
	memory vmspec.Bytes
}

// limitsOf returns how large a VM can become. It ignores errors in the size, which are reported elsewhere.
func limitsOf(vm *v1.VirtualMachine) size {
	s, _ := SizeOf(vm)
	s = s.WithSize()
	return size{int64(s.MaximumCPUs), s.MaximumRAM}
}

// policyFor returns the policy for a number of cores, or nil if no policy applies.
func policyFor(all []v1.SizingPolicy, cores int64) *v1.SizingPolicy {
	for i := range all {
		if c := all[i].Cores; int64(c.Min) <= cores && cores <= int64(c.Max) {
			return &all[i]
		}
	}
	return nil
}

// defaultFraction returns the default core fraction of VMs, or "" if the policy doesn't define a fraction.
func defaultFraction(p *v1.SizingPolicy) v1.CoreFraction {
	if p.DefaultCoreFraction != "" || len(p.CoreFractions) == 0 {
		return p.DefaultCoreFraction
	}
	return slices.MaxFunc(p.CoreFractions, byPercent)
}

// Fractions returns the core fractions that a policy allows, in ascending order; nil allows any fraction. preset is
// the default fraction; "" without a default.
func Fractions(p *v1.SizingPolicy) (allowed []string, preset string) {
	if len(p.DedicatedCores) == 1 && p.DedicatedCores[0] {
		return []string{"100%"}, string(defaultFraction(p))
	}
	for _, f := range slices.SortedFunc(slices.Values(p.CoreFractions), byPercent) {
		if f != "100%" || len(p.DedicatedCores) != 1 {
			allowed = append(allowed, string(f))
		}
	}
	return allowed, string(defaultFraction(p))
}

func byPercent(a, b v1.CoreFraction) int { return cmp.Compare(Percent(a), Percent(b)) }

// Percent returns a core fraction as a number, or 0 for an empty fraction.
func Percent(f v1.CoreFraction) int {
	number, _ := strconv.Atoi(strings.TrimSuffix(string(f), "%"))
	return number
}

// Mismatch describes how a VM violates the sizing policies of its class, and what is allowed. It returns "" if the
// VM complies.
func Mismatch(c *v1.VirtualMachineClass, vm *v1.VirtualMachine) string {
	if len(c.Spec.SizingPolicies) == 0 {
		return ""
	}
	is := limitsOf(vm)
	p := policyFor(c.Spec.SizingPolicies, is.cores)
	if p == nil || !onStep(is.cores, p.Cores) {
		return fmt.Sprintf("spec.vm.maximumCpus is %d: class %s allows %s; the nearest is %d",
			is.cores, c.Name, coreRanges(c.Spec.SizingPolicies), nearestCores(c.Spec.SizingPolicies, is.cores))
	}
	var wrong []string
	if p.Memory != nil && !allowsMemory(p.Memory, is) {
		written := formatQuantity(int64(is.memory))
		if ram := vm.Spec.VM.MaximumRAM; ram != nil {
			written = ram.String()
		}
		wrong = append(wrong, fmt.Sprintf("spec.vm.maximumRam is %s: with %d CPUs class %s allows %s",
			written, is.cores, c.Name, memoryRange(p.Memory, is.cores)))
	}
	if fault := fractionFault(c.Name, p, vm, is.cores); fault != "" {
		wrong = append(wrong, fault)
	}
	return strings.Join(wrong, "; ")
}

func onStep(cores int64, r v1.CoreRange) bool { return (cores-int64(r.Min))%int64(max(1, r.Step)) == 0 }

// nearestCores returns the nearest allowed number of cores; in a tie, the larger number.
func nearestCores(all []v1.SizingPolicy, cores int64) int64 {
	best := int64(-1)
	distance := func(n int64) int64 { return max(n-cores, cores-n) }
	for _, p := range all {
		low, high, step := int64(p.Cores.Min), int64(p.Cores.Max), int64(max(1, p.Cores.Step))
		high -= (high - low) % step
		below := low + (min(max(cores, low), high)-low)/step*step
		for _, n := range []int64{below, min(below+step, high)} {
			if best < 0 || distance(n) < distance(best) || distance(n) == distance(best) && n > best {
				best = n
			}
		}
	}
	return best
}

func coreRanges(all []v1.SizingPolicy) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = coreRange(p.Cores, "")
	}
	return strings.Join(texts, ", ")
}

func coreRange(c v1.CoreRange, unit string) string {
	if c.Min == c.Max {
		return strconv.Itoa(int(c.Min)) + unit
	}
	text := fmt.Sprintf("%d to %d%s", c.Min, c.Max, unit)
	if c.Step > 1 {
		text += fmt.Sprintf(" in steps of %d", c.Step)
	}
	return text
}

// memoryBounds returns the minimum and maximum memory of a VM with this number of cores, in bytes. most is 0 without a
// maximum.
func memoryBounds(m *v1.MemoryRange, cores int64) (least, most int64) {
	least, most = quantityBytes(m.Min), quantityBytes(m.Max)
	if per := m.PerCore; per != nil {
		least = max(least, quantityBytes(per.Min)*cores)
		if high := quantityBytes(per.Max) * cores; high > 0 && (most == 0 || high < most) {
			most = high
		}
	}
	return least, most
}

func quantityBytes(q *resource.Quantity) int64 {
	if q == nil {
		return 0
	}
	return q.Value()
}

func formatQuantity(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

func allowsMemory(m *v1.MemoryRange, is size) bool {
	least, most := memoryBounds(m, is.cores)
	have := int64(is.memory)
	if have < least || most > 0 && have > most {
		return false
	}
	step := quantityBytes(m.Step)
	return step == 0 || (have-quantityBytes(m.Min))%step == 0
}

func memoryRange(m *v1.MemoryRange, cores int64) string {
	least, most := memoryBounds(m, cores)
	var s string
	switch {
	case most > 0 && least > most:
		return fmt.Sprintf("none: its bounds contradict each other (at least %s, at most %s)",
			formatQuantity(least), formatQuantity(most))
	case least > 0 && most > 0:
		s = formatQuantity(least) + " to " + formatQuantity(most)
	case most > 0:
		s = "at most " + formatQuantity(most)
	case least > 0:
		s = "at least " + formatQuantity(least)
	default:
		s = "any size"
	}
	if step := quantityBytes(m.Step); step > 0 {
		s += " in steps of " + formatQuantity(step)
		if from := quantityBytes(m.Min); from > 0 && from != least {
			s += " from " + formatQuantity(from)
		}
	}
	return s
}

// fractionFault describes an invalid core fraction of a VM; "" if it is valid.
func fractionFault(class string, p *v1.SizingPolicy, vm *v1.VirtualMachine, cores int64) string {
	bounded := len(p.CoreFractions) > 0 || len(p.DedicatedCores) == 1
	if bounded && vm.Spec.Resources != nil {
		return fmt.Sprintf("spec.resources: class %s sets the requests of VMs with %d CPUs; remove this field", class, cores)
	}
	fraction := defaultFraction(p)
	if vm.Spec.CPU != nil && vm.Spec.CPU.CoreFraction != "" {
		fraction = vm.Spec.CPU.CoreFraction
	}
	dedicated := fraction == "100%"
	switch {
	case len(p.CoreFractions) > 0 && !slices.Contains(p.CoreFractions, fraction):
		return fmt.Sprintf("spec.cpu.coreFraction is %s: with %d CPUs class %s allows %s",
			fraction, cores, class, joinFractions(p.CoreFractions))
	case len(p.DedicatedCores) == 1 && p.DedicatedCores[0] && !dedicated:
		return fmt.Sprintf("spec.cpu.coreFraction is %s: with %d CPUs class %s allows only dedicated cores, which require 100%%",
			cmp.Or(string(fraction), "not set"), cores, class)
	case len(p.DedicatedCores) == 1 && !p.DedicatedCores[0] && dedicated:
		return fmt.Sprintf("spec.cpu.coreFraction is 100%%: with %d CPUs class %s has no dedicated cores; use at most 99%%",
			cores, class)
	}
	return ""
}

func joinFractions(all []v1.CoreFraction) string {
	texts := make([]string, len(all))
	for i, f := range all {
		texts[i] = string(f)
	}
	return strings.Join(texts, ", ")
}

// Sizes describes the sizes that VMs of a class may have, with a text for each policy. It returns nil if any size is
// allowed.
func Sizes(c *v1.VirtualMachineClass) (all []string) {
	for _, p := range c.Spec.SizingPolicies {
		text := coreRange(p.Cores, " CPUs")
		if p.Cores.Max == 1 {
			text = "1 CPU"
		}
		var memory []string
		if m := p.Memory; m != nil && (m.Min != nil || m.Max != nil || m.Step != nil) {
			memory = append(memory, memoryRange(&v1.MemoryRange{MemoryBounds: m.MemoryBounds, Step: m.Step}, 1))
		}
		if p.Memory != nil && p.Memory.PerCore != nil {
			memory = append(memory, memoryRange(&v1.MemoryRange{PerCore: p.Memory.PerCore}, 1)+" for each CPU")
		}
		if memory != nil {
			text += " with RAM of " + strings.Join(memory, ", ")
		}
		all = append(all, text)
	}
	return all
}
