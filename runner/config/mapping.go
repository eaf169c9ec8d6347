package config

import (
	"fmt"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// An entry is a key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// entries returns what a mapping holds: first its own entries, then those that
// it merges (https://yaml.org/type/merge.html) and has not itself.
func (d *decoder) entries(path string, n *yaml.Node) []entry {
	all := make([]entry, 0, len(n.Content)/2)
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = &yaml.Node{Kind: key.Alias.Kind, Tag: key.Alias.Tag, Value: key.Alias.Value, Line: key.Line, Column: key.Column}
		}
		switch first := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.refuse(key, path, "got "+describe(key)+" for a key, want a text", "")
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
		case first != nil:
			d.refuse(key, d.below(path, clip(key.Value)), "the key is here twice", fmt.Sprintf("first on line %d", first.Line))
		default:
			seen[key.Value] = key
			all = append(all, entry{key, value})
		}
	}
	for _, source := range merged {
		for _, e := range d.merged(path, source, true) {
			if seen[e.key.Value] == nil {
				seen[e.key.Value] = e.key
				all = append(all, e)
			}
		}
	}
	return all
}

// merged returns the entries that a merge key brings: those of a mapping or of
// a list of mappings, where the first wins.
func (d *decoder) merged(path string, source *yaml.Node, lists bool) []entry {
	n, leave := d.enter(path, source)
	if n == nil {
		return nil
	}
	defer leave()
	switch {
	case n.Kind == yaml.MappingNode:
		return d.entries(path, n)
	case n.Kind == yaml.SequenceNode && lists:
		var all []entry
		for _, item := range n.Content {
			all = append(all, d.merged(path, item, false)...)
		}
		return all
	}
	d.refuse(source, path, "got "+describe(n)+" for the merge key <<, want a mapping", "such as <<: *name")
	return nil
}

// enter follows a node if it is an alias, and keeps count of what it takes. It
// returns nil, and notes why, if the node can't be entered; leave ends the
// visit.
func (d *decoder) enter(path string, n *yaml.Node) (entered *yaml.Node, leave func()) {
	aliases := len(d.aliases)
	if n.Kind == yaml.AliasNode {
		if slices.ContainsFunc(d.aliases, func(a *yaml.Node) bool { return a.Alias == n.Alias }) {
			d.refuse(n, path, "the anchor "+strconv.Quote(clip(n.Value))+" contains itself", "")
			return nil, nil
		}
		d.aliases = append(d.aliases, n)
		n = n.Alias
	}
	at := n
	if len(d.aliases) > 0 {
		at = d.aliases[0] // where the user's path leads through
	}
	before := d.aliased
	if len(d.aliases) > 0 {
		d.aliased += 1 + len(n.Content)
	}
	d.depth++
	leave = func() {
		d.depth--
		d.aliases = d.aliases[:aliases]
	}
	switch {
	case d.aliased > mostAliased && before <= mostAliased:
		d.refuse(at, path, fmt.Sprintf("aliases stand for more than %d values", mostAliased), "write out what is meant")
	case d.depth > deepest:
		d.refuse(at, path, "nested too deeply", fmt.Sprintf("at most %d levels", deepest))
	}
	if d.aliased > mostAliased || d.depth > deepest {
		leave()
		return nil, nil
	}
	return n, leave
}
