package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the highest number of a CPU of the host that Linux can have (CONFIG_NR_CPUS).
const maxCPU = 8191

// Affinity says on which CPUs of the host those of the guest run.
type Affinity struct {
	// CPUs are those of the host for each CPU of the guest, by its number (cpu-index in
	// QMP). None means that it runs where QEMU does, as do CPUs beyond the list.
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

// CPUList returns numbers of CPUs as Linux writes them: 0-3,8.
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

// cpus checks numbers of CPUs of the host.
func (c *checker) cpus(what string, cpus []int) {
	for _, n := range cpus {
		if n < 0 || n > maxCPU {
			c.fault(nil, "%s: the host can't have a CPU %d, want 0 to %d", what, n, maxCPU)
		}
	}
}

// affinity checks a rule.
func (c *checker) affinity(r Affinity) {
	if len(r.CPUs) > MaxOptions {
		c.fault(nil, "hotplug.affinity: %d CPUs, at most %d are allowed", len(r.CPUs), MaxOptions)
		return
	}
	for n, list := range r.CPUs {
		c.cpus(fmt.Sprintf("hotplug.affinity: cpus[%d]", n), list)
	}
}
