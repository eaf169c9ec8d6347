package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the highest possible CPU number on Linux (CONFIG_NR_CPUS).
const maxCPU = 8191

// Affinity is the rule that assigns the guest's CPUs to CPUs of the host.
type Affinity struct {
	// CPUs contains the CPUs of the host for each CPU of the guest. The index is the number of the guest's CPU
	// (cpu-index in QMP). A guest CPU with an empty list, or beyond the end of CPUs, runs on the same CPUs as
	// QEMU.
	CPUs [][]int `json:"cpus"`
}

// Kind implements Rule.
func (Affinity) Kind() string { return "affinity" }

// String implements Rule.
func (r Affinity) String() string {
	text := "affinity"
	for n, list := range r.CPUs {
		if len(list) > 0 {
			text += fmt.Sprintf(" %d=%s", n, CPUList(list))
		}
	}
	return text
}

func (Affinity) rule() {}

// CPUList returns CPU numbers in Linux's notation: 0-3,8.
func CPUList(cpus []int) string {
	list := slices.Compact(slices.Sorted(slices.Values(cpus)))
	var words []string
	for i := 0; i < len(list); i++ {
		first := list[i]
		for i+1 < len(list) && list[i+1] == list[i]+1 {
			i++
		}
		word := strconv.Itoa(first)
		if list[i] > first {
			word += "-" + strconv.Itoa(list[i])
		}
		words = append(words, word)
	}
	return strings.Join(words, ",")
}

// checkCPUs checks CPU numbers of the host.
func (c *checker) checkCPUs(what string, at Origin, cpus []int) {
	for _, n := range cpus {
		if n < 0 || n > maxCPU {
			c.addFault(at, "%s: the host can't have a CPU %d; the number must be 0 to %d", what, n, maxCPU)
		}
	}
}

// checkAffinity checks a rule.
func (c *checker) checkAffinity(r Affinity, at Origin) {
	if len(r.CPUs) > MaxOptions {
		c.addFault(at, "hotplug.affinity: %d CPUs, at most %d are allowed", len(r.CPUs), MaxOptions)
		return
	}
	for n, list := range r.CPUs {
		c.checkCPUs(fmt.Sprintf("hotplug.affinity: cpus[%d]", n), at, list)
	}
}
