package yamlfile

import (
	"fmt"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// An entry is a key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// entriesOf returns the entries of a mapping: first its own, then the merged entries
// (https://yaml.org/type/merge.html) with other keys.
func (r *Reader) entriesOf(path string, n *yaml.Node) []entry {
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
			r.refuseNode(key, path, "a key must be text, not "+describeNode(key), "")
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
		case first != nil:
			hint := fmt.Sprintf("first on line %d", first.Line)
			r.refuseNode(key, r.pathBelow(path, clipWord(key.Value)), "the key is here twice", hint)
		default:
			seen[key.Value] = key
			all = append(all, entry{key, value})
		}
	}
	for _, source := range merged {
		for _, e := range r.mergedEntries(path, source, true) {
			if seen[e.key.Value] == nil {
				seen[e.key.Value] = e.key
				all = append(all, e)
			}
		}
	}
	return all
}

// mergedEntries returns the entries that a merge key adds: from a mapping, or from a list of mappings, where the first
// mapping with a key wins.
func (r *Reader) mergedEntries(path string, source *yaml.Node, lists bool) []entry {
	n, leave := r.enterAlias(path, source)
	if n == nil {
		return nil
	}
	defer leave()
	switch {
	case n.Kind == yaml.MappingNode:
		return r.entriesOf(path, n)
	case n.Kind == yaml.SequenceNode && lists:
		var all []entry
		for _, item := range n.Content {
			all = append(all, r.mergedEntries(path, item, false)...)
		}
		return all
	}
	r.refuseNode(source, path, "the value of the merge key << must be a mapping, not "+describeNode(n),
		"such as <<: *name")
	return nil
}

// enterAlias follows a node if it is an alias, and counts the visited nodes. If the node can't be entered, it records
// an error and returns nil. leave ends the visit.
func (r *Reader) enterAlias(path string, n *yaml.Node) (entered *yaml.Node, leave func()) {
	aliases := len(r.aliases)
	if n.Kind == yaml.AliasNode {
		if slices.ContainsFunc(r.aliases, func(a *yaml.Node) bool { return a.Alias == n.Alias }) {
			r.refuseNode(n, path, "the anchor "+strconv.Quote(clipWord(n.Value))+" contains itself", "")
			return nil, nil
		}
		r.aliases = append(r.aliases, n)
		n = n.Alias
	}
	at := n
	if len(r.aliases) > 0 {
		at = r.aliases[0] // where the user's path leads
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
		r.refuseNode(at, path, fmt.Sprintf("aliases stand for more than %d values", mostAliased),
			"write out what is meant")
	case r.depth > deepest:
		r.refuseNode(at, path, "nested too deeply", fmt.Sprintf("at most %d levels", deepest))
	}
	if r.aliased > mostAliased || r.depth > deepest {
		leave()
		return nil, nil
	}
	return n, leave
}
