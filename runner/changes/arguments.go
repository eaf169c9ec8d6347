package changes

import (
	"fmt"
	"strings"

	"vmop/printable"
)

// Bounds of the list of arguments, which is for people.
const (
	mostArguments   = 64
	longestArgument = 256 // characters
)

// argumentChanges returns the arguments of QEMU in which two effects differ: those that go
// behind "- ", then those that come behind "+ ".
func argumentChanges(before, after string) (all []string) {
	was, willBe := arguments(before), arguments(after)
	left := map[string]int{}
	for _, a := range willBe {
		left[a]++
	}
	for _, a := range was {
		if left[a]--; left[a] < 0 {
			all = append(all, "- "+printable.Clip(a, longestArgument))
		}
	}
	for _, a := range willBe { // the first of several equal ones is as good as the last
		if left[a] > 0 {
			left[a]--
			all = append(all, "+ "+printable.Clip(a, longestArgument))
		}
	}
	if more := len(all) - mostArguments; more > 0 {
		all = append(all[:mostArguments-1], fmt.Sprintf("... and %d more", more+1))
	}
	return all
}

// arguments returns those of QEMU in an effect.
func arguments(effect string) (all []string) {
	inQEMU := false
	for line := range strings.Lines(effect) {
		line = strings.TrimSuffix(line, "\n")
		argument, inside := strings.CutPrefix(line, "    ")
		switch {
		case !inside:
			inQEMU = strings.HasPrefix(line, "qemu ")
		case inQEMU && strings.HasPrefix(argument, "-"):
			all = append(all, argument)
		}
	}
	return all
}
