package compare

import (
	"slices"
	"strings"

	"vmop/vmtypes/plan"
)

// comparePlans returns the changes from one plan to another, in the order of the old plan's options, followed by the
// new options.
func comparePlans(before, after *plan.Plan) []Change {
	c := &comparison{before: newSide(before), after: newSide(after)}
	c.compareExecutable(before.QEMU, after.QEMU, "qemu", Emulator)
	c.compareOptions()
	c.compareEnvironment("qemu", before.QEMU, after.QEMU)
	c.compareHelpers(before.Helpers, after.Helpers)
	c.compareCopies(before.Files, after.Files)
	c.compareTaps(before.Taps, after.Taps)
	c.compareSockets(before, after)
	c.compareRules(before.Rules, after.Rules)
	return c.changes
}

// Outcomes compares the results for the same VM: a plan, or an error message if there is no valid plan. A plan with an
// error message cannot work.
func Outcomes(before *plan.Plan, fault string, after *plan.Plan, newFault string) []Change {
	switch {
	case fault == "" && newFault == "":
		return comparePlans(before, after)
	case fault == newFault:
		return nil
	case newFault == "":
		return []Change{{Subject: "the VM", Meaning: StartsNow, Old: fault}}
	case fault == "":
		return []Change{{Subject: "the VM", Meaning: NoLongerStarts, New: newFault}}
	}
	return []Change{{Subject: "the VM", Meaning: FailsOtherwise, Old: fault, New: newFault}}
}

// comparison is the state of one call of Plans.
type comparison struct {
	before, after *side
	changes       []Change
}

func (c *comparison) addChange(change Change) { c.changes = append(c.changes, change) }

func (c *comparison) compareExecutable(before, after plan.Process, subject string, meaning Meaning) {
	if before.Executable != after.Executable {
		c.addChange(Change{
			Subject: subject, Property: "executable", Old: before.Executable, New: after.Executable,
			Meaning: meaning,
		})
	}
}

// compareOptions compares QEMU's options.
func (c *comparison) compareOptions() {
	pairs := pairOptions(c.before.plan.QEMU.Args, c.after.plan.QEMU.Args)
	for _, p := range pairs {
		switch {
		case p.before == nil:
			c.addChange(c.presenceChange(p.after, c.after, true))
		case p.after == nil:
			c.addChange(c.presenceChange(p.before, c.before, false))
		default:
			c.compareProperties(p)
		}
	}
}

// presenceChange returns the change for an added or removed option.
func (c *comparison) presenceChange(o *plan.Option, s *side, added bool) Change {
	change := Change{Subject: optionName(o), Place: describeOrigin(o.Origin)}
	text := strings.TrimSpace(strings.TrimPrefix(strings.Join(o.Words(descriptorName), " "), o.Flag))
	other := c.before
	if s == c.before {
		other = c.after
	}
	if change.Meaning, change.Note = s.presenceOf(o, added, other); added {
		change.New = text
	} else {
		change.Old = text
	}
	change.Live = c.before.live[o.Flag+" "+o.ID()] && o.ID() != ""
	return change
}

// compareProperties compares an option of both plans, property by property.
func (c *comparison) compareProperties(p pair) {
	replaced := p.after.Flag == "-device" && p.before.Value != p.after.Value
	add := func(property, before, after string) {
		if before == after {
			return
		}
		meaning, note := c.meaningOf(p, property, before, after)
		if meaning == "" || replaced && property != "" && !outlasts[meaning] {
			return
		}
		c.addChange(Change{
			Subject: optionName(p.after), Property: property, Old: before, New: after, Meaning: meaning, Note: note,
			Live: c.isLive(p.before, property), Place: describeOrigin(p.after.Origin),
		})
	}
	if id := p.before.ID(); id != p.after.ID() && id != "" {
		c.addChange(Change{
			Subject: optionName(p.after), Property: "id", Old: id, New: p.after.ID(), Meaning: HostOnly,
			Note: "QEMU's own name of it", Place: describeOrigin(p.after.Origin),
		})
	}
	add("", valueOf(p.before), valueOf(p.after))
	for _, key := range propertyKeys(p.before, p.after) {
		add(key, propertyValue(p.before, key), propertyValue(p.after, key))
	}
	if !replaced {
		c.compareOrder(p)
	}
}

// outlasts are the meanings that are reported for a replaced device. Its other changes follow from the replacement.
var outlasts = map[Meaning]bool{
	MAC: true, BootOrder: true, DiskContents: true, Network: true, Medium: true, FailureAction: true,
}

// isLive reports whether a rule of the old plan covers a property of an option.
func (c *comparison) isLive(o *plan.Option, property string) bool {
	return c.before.live[o.Flag+" "+o.ID()+" "+property] || o.ID() != "" && c.before.live[o.Flag+" "+o.ID()]
}

// propertyKeys returns the names of the properties of two options, without the properties that identify them.
func propertyKeys(before, after *plan.Option) []string {
	var list []string
	for _, o := range []*plan.Option{before, after} {
		for _, p := range o.Properties {
			if p.Key != "id" && p.Key != "node-name" && !slices.Contains(list, p.Key) {
				list = append(list, p.Key)
			}
		}
	}
	return list
}

// propertyValue returns the value of a property, or all values of a repeated property.
func propertyValue(o *plan.Option, key string) string {
	var values []string
	for _, p := range o.Properties {
		if p.Key != key {
			continue
		}
		value := p.Value
		if p.Descriptor != "" {
			value = descriptorName(p.Descriptor)
		}
		values = append(values, value)
	}
	return strings.Join(values, " ")
}

func descriptorName(descriptor string) string { return "<" + descriptor + ">" }

// describeOrigin returns the place that created something, without the calls that led there.
func describeOrigin(origin plan.Origin) string {
	if len(origin) == 0 {
		return ""
	}
	text, _, _ := strings.Cut(origin[0].String(), " ")
	return text
}
