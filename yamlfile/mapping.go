package yamlfile

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
func (r *Reader) entries(path string, n *yaml.Node) []entry {
	all := make([]entry, 0, len(n.Content)/2)
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			at := key
			key = new(yaml.Node)
			*key = *at.Alias
			key.Line, key.Column = at.Line, at.Column
		}
		switch first := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.refuse(key, path, "got "+describe(key)+" for a key, want a text", "")
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
		case first != nil:
			hint := fmt.Sprintf("first on line %d", first.Line)
			r.refuse(key, r.below(path, clip(key.Value)), "the key is here twice", hint)
		default:
			seen[key.Value] = key
			all = append(all, entry{key, value})
		}
	}
	for _, source := range merged {
		for _, e := range r.merged(path, source, true) {
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
func (r *Reader) merged(path string, source *yaml.Node, lists bool) []entry {
	n, leave := r.enter(path, source)
	if n == nil {
		return nil
	}
	defer leave()
	switch {
	case n.Kind == yaml.MappingNode:
		return r.entries(path, n)
	case n.Kind == yaml.SequenceNode && lists:
		var all []entry
		for _, item := range n.Content {
			all = append(all, r.merged(path, item, false)...)
		}
		return all
	}
	r.refuse(source, path, "got "+describe(n)+" for the merge key <<, want a mapping", "such as <<: *name")
	return nil
}

// enter follows a node if it is an alias, and keeps count of what it takes. It
// returns nil, and notes why, if the node can't be entered; leave ends the
// visit.
func (r *Reader) enter(path string, n *yaml.Node) (entered *yaml.Node, leave func()) {
	aliases := len(r.aliases)
	if n.Kind == yaml.AliasNode {
		if slices.ContainsFunc(r.aliases, func(a *yaml.Node) bool { return a.Alias == n.Alias }) {
			r.refuse(n, path, "the anchor "+strconv.Quote(clip(n.Value))+" contains itself", "")
			return nil, nil
		}
		r.aliases = append(r.aliases, n)
		n = n.Alias
	}
	at := n
	if len(r.aliases) > 0 {
		at = r.aliases[0] // where the user's path leads through
	}
	before := r.aliased
	if len(r.aliases) > 0 {
		r.aliased += 1 + len(n.Content)
	}
	r.depth++
	leave = func() {
		r.depth--
		r.aliases = r.aliases[:aliases]
	}
	switch {
	case r.aliased > mostAliased && before <= mostAliased:
		r.refuse(at, path, fmt.Sprintf("aliases stand for more than %d values", mostAliased), "write out what is meant")
	case r.depth > deepest:
		r.refuse(at, path, "nested too deeply", fmt.Sprintf("at most %d levels", deepest))
	}
	if r.aliased > mostAliased || r.depth > deepest {
		leave()
		return nil, nil
	}
	return n, leave
}
