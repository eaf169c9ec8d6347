package changes

import (
	"fmt"
	"strings"

	"vmop/internal/printable"
)

// Limits of the list of arguments, which is for users.
const (
	mostArguments   = 64
	longestArgument = 256 // characters
)

// argumentChanges returns QEMU's arguments that differ between two effects: removed arguments with the prefix "-
// ", then added arguments with the prefix "+ ".
func argumentChanges(before, after string) (all []string) {
	was, willBe := effectArguments(before), effectArguments(after)
	left := map[string]int{}
	for _, a := range willBe {
		left[a]++
	}
	for _, a := range was {
		if left[a]--; left[a] < 0 {
			all = append(all, "- "+printable.Clip(a, longestArgument))
		}
	}
	for _, a := range willBe { // the first of several equal arguments is as good as the last
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

// effectArguments returns QEMU's arguments in an effect.
func effectArguments(effect string) (all []string) {
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
