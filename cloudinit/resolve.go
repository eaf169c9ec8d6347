package cloudinit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxNodes is the maximum number of nodes after expanding aliases. Real data on the disk needs far fewer keys and
// values.
const maxNodes = 1 << 20

// KeyError describes an error in one key of the section. It never quotes a value, because values contain
// passwords.
type KeyError struct {
	Key          string // as in the configuration, below cloudInit: "metaData"
	Line, Column int    // in the configuration, from 1; 0 if unknown
	Problem      string // the error in the value, without its place

	cause error // the error of a file
}

// Unwrap returns the error of the file in the key; nil if the key itself is invalid.
func (e *KeyError) Unwrap() error { return e.cause }

func (e *KeyError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("cloudInit.%s: %s", e.Key, e.Problem)
	}
	return fmt.Sprintf("cloudInit.%s: %s (line %d)", e.Key, e.Problem, e.Line)
}

func keyFault(key string, at *yaml.Node, problem string) *KeyError {
	return &KeyError{Key: key, Line: at.Line, Column: at.Column, Problem: problem}
}

// readMapping resolves a key that must contain a mapping. A missing key or a null results in an empty mapping.
func readMapping(key string, n *yaml.Node) (*yaml.Node, error) {
	node, err := resolveNode(key, n)
	switch {
	case err != nil:
		return nil, err
	case node == nil:
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, nil
	case node.Kind != yaml.MappingNode:
		return nil, keyFault(key, node, "must be a mapping, not "+describeKind(node))
	}
	return node, nil
}

// resolveNode copies a node into a self-contained one: it replaces aliases and merge keys by their meaning, removes
// anchors and comments, and keeps tags and styles. A missing node or a null results in nil.
func resolveNode(key string, n *yaml.Node) (*yaml.Node, error) {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	if n.Kind == 0 {
		return nil, nil
	}
	r := resolver{key: key}
	node, err := r.copyNode(n)
	if err != nil {
		return nil, err
	}
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return nil, nil
	}
	node.Style &^= yaml.FlowStyle // the outermost level reads better line by line
	return node, nil
}

// resolver is the state of one walk through a key's nodes.
type resolver struct {
	key     string
	nodes   int          // copied so far
	size    int          // bytes of scalars copied so far
	aliased []*yaml.Node // targets of the aliases around the current node
}

func (r *resolver) copyNode(n *yaml.Node) (*yaml.Node, error) {
	r.nodes++
	r.size += len(n.Value)
	if r.nodes > maxNodes {
		return nil, keyFault(r.key, n, fmt.Sprintf("holds more than %d keys and values once aliases are followed",
			maxNodes))
	}
	if r.size > MaxData {
		return nil, keyFault(r.key, n, fmt.Sprintf("holds more than %d MiB once aliases are followed", MaxData>>20))
	}
	out := &yaml.Node{
		Kind: n.Kind, Style: plainStyle(n.Style), Tag: n.Tag, Value: n.Value, Line: n.Line,
		Column: n.Column,
	}
	if n.Kind == yaml.ScalarNode && n.Value == "" && n.ShortTag() == "!!null" {
		out.Value = "null" // yaml.v3 writes a missing value as the string '' between braces
	}
	switch n.Kind {
	case yaml.AliasNode:
		return r.followAlias(n)
	case yaml.MappingNode:
		return out, r.copyMapping(n, out)
	case yaml.SequenceNode:
		out.Content = make([]*yaml.Node, 0, len(n.Content))
		for _, item := range n.Content {
			copied, err := r.copyNode(item)
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, copied)
		}
	}
	return out, nil
}

// plainStyle replaces the folded style: yaml.v3 writes some texts in this style with an additional line end.
func plainStyle(style yaml.Style) yaml.Style {
	if style&yaml.FoldedStyle != 0 {
		return style&^yaml.FoldedStyle | yaml.LiteralStyle
	}
	return style
}

func (r *resolver) followAlias(alias *yaml.Node) (*yaml.Node, error) {
	if slices.Contains(r.aliased, alias.Alias) {
		return nil, keyFault(r.key, alias, fmt.Sprintf("the anchor %q contains itself", alias.Value))
	}
	r.aliased = append(r.aliased, alias.Alias)
	defer func() { r.aliased = r.aliased[:len(r.aliased)-1] }()
	return r.copyNode(alias.Alias)
}

// copyMapping copies the pairs of a mapping. It inserts the pairs of a merge key at its place. The mapping's own keys
// take precedence over them, and an earlier merge takes precedence over a later merge
// (https://yaml.org/type/merge.html).
func (r *resolver) copyMapping(from, to *yaml.Node) error {
	taken := make(map[scalarKey]bool, len(from.Content)/2)
	for i := 0; i+1 < len(from.Content); i += 2 {
		name := from.Content[i]
		if name.Kind != yaml.ScalarNode || isMerge(name) {
			continue
		}
		if taken[scalarKeyOf(name)] {
			return keyFault(r.key, name, fmt.Sprintf("the key %q exists twice", name.Value))
		}
		taken[scalarKeyOf(name)] = true
	}
	for i := 0; i+1 < len(from.Content); i += 2 {
		value, err := r.copyNode(from.Content[i+1])
		if err != nil {
			return err
		}
		if isMerge(from.Content[i]) {
			if err := r.mergePairs(value, to, taken); err != nil {
				return err
			}
			continue
		}
		name, err := r.copyNode(from.Content[i])
		if err != nil {
			return err
		}
		to.Content = append(to.Content, name, value)
	}
	return nil
}

// mergePairs appends the pairs of a resolved mapping, or list of mappings, except pairs with keys that are already
// taken.
func (r *resolver) mergePairs(source, to *yaml.Node, taken map[scalarKey]bool) error {
	switch source.Kind {
	case yaml.SequenceNode:
		for _, item := range source.Content {
			if item.Kind == yaml.SequenceNode {
				return keyFault(r.key, item, "the list of the merge key << must contain mappings, not lists")
			}
			if err := r.mergePairs(item, to, taken); err != nil {
				return err
			}
		}
		return nil
	case yaml.MappingNode:
		for i := 0; i+1 < len(source.Content); i += 2 {
			name := source.Content[i]
			if name.Kind == yaml.ScalarNode {
				if taken[scalarKeyOf(name)] {
					continue
				}
				taken[scalarKeyOf(name)] = true
			}
			to.Content = append(to.Content, name, source.Content[i+1])
		}
		return nil
	}
	return keyFault(r.key, source, "the value of the merge key << must be a mapping, not "+describeKind(source))
}

// scalarKey identifies a key of a mapping: the number 1 and the string "1" are different.
type scalarKey struct{ tag, value string }

func scalarKeyOf(n *yaml.Node) scalarKey { return scalarKey{n.ShortTag(), n.Value} }

func isMerge(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!merge" }

// encodeYAML renders a resolved node as a YAML document.
func encodeYAML(key string, n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		return nil, keyFault(key, n, "write as YAML: "+err.Error())
	}
	if err := encoder.Close(); err != nil {
		return nil, keyFault(key, n, "write as YAML: "+err.Error())
	}
	return out.Bytes(), nil
}

// describeKind returns a description of a node's kind for error messages.
func describeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch tag := n.ShortTag(); tag {
	case "!!str":
		return "a string"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "nothing"
	default:
		return "a value of type " + strings.TrimLeft(tag, "!")
	}
}
