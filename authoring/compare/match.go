package compare

import (
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A pair is an option in two plans. One side is nil if only the other plan contains the option.
type pair struct{ before, after *plan.Option }

// pairOptions matches the options of two processes: first by identity, and the remaining options by all properties
// except their ids.
func pairOptions(before, after []plan.Option) []pair {
	later := map[string]*plan.Option{}
	names, laterNames := optionIdentities(before), optionIdentities(after)
	for i := range after {
		later[laterNames[i]] = &after[i]
	}
	used := map[*plan.Option]bool{}
	pairs := make([]pair, len(before))
	for i := range before {
		pairs[i].before = &before[i]
		if o := later[names[i]]; o != nil {
			pairs[i].after, used[o] = o, true
		}
	}
	for i := range pairs {
		if pairs[i].after == nil {
			if o := findRenamed(pairs[i].before, after, used); o != nil {
				pairs[i].after, used[o] = o, true
			}
		}
	}
	for i := range after {
		if !used[&after[i]] {
			pairs = append(pairs, pair{after: &after[i]})
		}
	}
	return pairs
}

// optionIdentities returns a unique identity for each option. It numbers options with the same identity.
func optionIdentities(options []plan.Option) []string {
	list := make([]string, len(options))
	seen := map[string]int{}
	for i := range options {
		name := identityOf(&options[i])
		seen[name]++
		if n := seen[name]; n > 1 {
			name += " #" + strconv.Itoa(n)
		}
		list[i] = name
	}
	return list
}

// identityOf returns the flag with the part that distinguishes the option from other options with this flag.
func identityOf(o *plan.Option) string {
	if id := o.ID(); id != "" {
		return o.Flag + " " + id
	}
	switch o.Flag {
	case "-global":
		return o.Flag + " " + globalOf(o)
	case "-action":
		if len(o.Properties) > 0 {
			return o.Flag + " " + o.Properties[0].Key
		}
	case "-numa":
		return o.Flag + " " + o.Value + " " + propertyValue(o, "nodeid")
	}
	switch row := qemuopt.Flag(o.Flag); {
	case row == nil:
	case row.Key != "":
		return o.Flag + " " + propertyValue(o, row.Key)
	case row.Makes != "" && row.Makes != qemuopt.BlockNode:
		return o.Flag + " " + o.Value
	}
	return o.Flag
}

// globalOf returns driver.property for any notation of -global.
func globalOf(o *plan.Option) string {
	if o.List && propertyValue(o, "driver") != "" {
		return propertyValue(o, "driver") + "." + propertyValue(o, "property")
	}
	if o.List && len(o.Properties) > 0 {
		return o.Properties[0].Key
	}
	text, _, _ := strings.Cut(o.Value, "=")
	return text
}

// valueOf returns an option's first value, or the value that -global sets.
func valueOf(o *plan.Option) string {
	if o.Flag == "-global" && !o.List {
		_, value, _ := strings.Cut(o.Value, "=")
		return value
	}
	return o.Value
}

// optionName returns the name of an option for messages.
func optionName(o *plan.Option) string {
	if o.Flag == "-device" && o.ID() != "" {
		return o.Flag + " " + o.ID() + " (" + o.Value + ")"
	}
	return identityOf(o)
}

// findRenamed returns an unused option that only differs in its id and in references, or nil. At least one other
// property must be equal, because small options would otherwise be confused.
func findRenamed(o *plan.Option, candidates []plan.Option, used map[*plan.Option]bool) *plan.Option {
	if o.ID() == "" {
		return nil
	}
	for i := range candidates {
		other := &candidates[i]
		if used[other] || other.ID() == "" || other.Flag != o.Flag || other.Value != o.Value ||
			len(other.Properties) != len(o.Properties) {
			continue
		}
		same, different := 0, 0
		for _, key := range propertyKeys(o, other) {
			switch {
			case qemuopt.Reference(o.Flag, o.Backend(), key) != "":
			case propertyValue(o, key) == propertyValue(other, key):
				same++
			default:
				different++
			}
		}
		if same > 0 && different == 0 {
			return other
		}
	}
	return nil
}
