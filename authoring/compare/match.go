package compare

import (
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A pair is an option in both plans; one is nil if only the other plan has it.
type pair struct{ before, after *plan.Option }

// pairOptions finds the options of two processes that are the same thing: first by
// what they are called, then, of those left over, by all but their ids.
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

// optionIdentities returns for each option what it is called, each name once: what
// has no name of its own is counted.
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

// identityOf returns a flag and what tells the option apart from others with it.
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

// globalOf returns driver.property, whichever way -global was spelled.
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

// valueOf returns an option's first value, of -global what is set.
func valueOf(o *plan.Option) string {
	if o.Flag == "-global" && !o.List {
		_, value, _ := strings.Cut(o.Value, "=")
		return value
	}
	return o.Value
}

// optionName is the name of an option in messages.
func optionName(o *plan.Option) string {
	if o.Flag == "-device" && o.ID() != "" {
		return o.Flag + " " + o.ID() + " (" + o.Value + ")"
	}
	return identityOf(o)
}

// findRenamed returns an option that is not used yet and is the same but for its
// id and the names it uses, or nil. At least one more property must be the same,
// or small things would be taken for each other.
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
