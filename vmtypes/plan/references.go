package plan

import (
	"slices"
	"strings"

	"vmop/internal/spelling"
	"vmop/vmtypes/qemuopt"
)

// checkReferences checks that all references to ids lead to existing objects.
func (c *checker) checkReferences(o *Option) {
	kindOf := qemuopt.References(o.Flag, o.Backend())
	for _, p := range o.Properties {
		if p.Value == "" || p.Descriptor != "" {
			continue
		}
		kind := kindOf(p.Key)
		if kind == "" {
			continue
		}
		if _, ok := c.defined[thing{kind, p.Value}]; !ok {
			c.addFault(o.Origin, "%s %s: %s=%s, but there is no %s of that name%s", o.Flag, o.Value, p.Key, p.Value,
				kind, c.suggestID(kind, p.Value))
			continue
		}
		if kind == qemuopt.Chardev || kind == qemuopt.TPMDev || kind == qemuopt.Netdev && o.Flag == "-device" ||
			p.Key == "memdev" || p.Key == "memory-backend" {
			c.use(o, p.Key+"="+p.Value, thing{kind, p.Value})
		}
	}
	id, ok := strings.CutPrefix(o.Value, "chardev:")
	if !ok || !slices.Contains(toChardev, o.Flag) {
		return
	}
	if _, defined := c.defined[thing{qemuopt.Chardev, id}]; !defined {
		c.addFault(o.Origin, "%s %s: there is no chardev of that name%s", o.Flag, o.Value,
			c.suggestID(qemuopt.Chardev, id))
		return
	}
	c.use(o, o.Value, thing{qemuopt.Chardev, id})
}

// use reports a second use of a thing that only one option can use.
func (c *checker) use(o *Option, property string, t thing) {
	other, used := c.users[t]
	switch {
	case !used:
		c.users[t] = o
	case other != nil:
		c.addFault(o.Origin, "%s: %s is already used by %s; give each its own %s", shortName(o), property,
			nameWithPlace(other), t.kind)
	}
}

// isShared reports whether several options can use a character device.
func isShared(o *Option) bool {
	text, given := o.lastValue("mux")
	on, known := qemuopt.Bool(text)
	return given && (on || !known) || o.Backend() == "mux" || o.Backend() == "hub"
}

// suggestID returns a suggestion for the id of a thing that isn't defined.
func (c *checker) suggestID(kind qemuopt.Kind, id string) string {
	var known []string
	if len(c.faults) >= maxSuggestions {
		return ""
	}
	for t := range c.defined {
		if t.kind == kind {
			known = append(known, t.id)
		}
	}
	return c.didYouMean(id, known)
}

// didYouMean returns a suggestion, or "". Only the first errors have suggestions, because a hostile plan can have
// thousands of errors.
func (c *checker) didYouMean(word string, known []string) string {
	if len(c.faults) >= maxSuggestions {
		return ""
	}
	slices.Sort(known)
	if near := spelling.Nearest(word, known); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}
