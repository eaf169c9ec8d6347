package yamlfile

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// DecodeSections is Decode for the configuration of a program that consists of
// components, one inside the other. A key that begins with a slash is that of a
// component, and the keys of one inside follow it or stand in its section:
// "/Manager/Controller" is the same as "/Controller" in "/Manager". An underscore
// may take the first slash's place. The yaml tags are those of the nested form.
// An empty file has no section.
func DecodeSections(name string, data []byte, into any) (*Document, error) {
	r := NewReader(name, data, Dialect{})
	if r.root == nil && len(r.faults) > 0 {
		return nil, r.Err()
	}
	if r.root != nil {
		r.decodeInto(nil, nest(r.root), into)
	}
	return r.doc, r.Err()
}

// nest brings the sections of a file into the nested form.
func nest(root *yaml.Node) *yaml.Node {
	if root.Kind != yaml.MappingNode {
		return root
	}
	var whole component
	whole.collect(root)
	return whole.node(root)
}

// A component is what a file says of one, in whatever places.
type component struct {
	name    string
	key     *yaml.Node   // of its section, or of one inside it
	given   bool         // there is a section of its own
	value   *yaml.Node   // of a section that is no mapping
	content []*yaml.Node // keys and values that are no sections
	inner   []*component
}

func (c *component) collect(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		names := componentNames(key)
		if names == nil {
			c.content = append(c.content, key, value)
			continue
		}
		outer, to := c, c
		for _, name := range names {
			outer, to = to, to.at(name, key)
		}
		switch {
		case to.given: // the decoder says so
			outer.content = append(outer.content, to.keyNode(key), value)
			continue
		case value.Kind == yaml.MappingNode:
			to.collect(value)
		default:
			to.value = value
		}
		to.given, to.key = true, key
	}
}

// at returns the component of a name in c.
func (c *component) at(name string, key *yaml.Node) *component {
	for _, inner := range c.inner {
		if inner.name == name {
			return inner
		}
	}
	made := &component{name: name, key: key}
	c.inner = append(c.inner, made)
	return made
}

// node returns the component's section, at the place of a node.
func (c *component) node(at *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column}
	for _, inner := range c.inner {
		key := inner.keyNode(inner.key)
		value := inner.value
		if value == nil || isEmpty(value) && len(inner.inner) > 0 {
			value = inner.node(key)
		}
		n.Content = append(n.Content, key, value)
	}
	n.Content = append(n.Content, c.content...)
	return n
}

func (c *component) keyNode(at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "/" + c.name, Line: at.Line, Column: at.Column}
}

// componentNames returns the way to the component whose key it is; nil if it is
// no such key.
func componentNames(key *yaml.Node) []string {
	if key.Kind != yaml.ScalarNode || key.Value == "" || key.Value[0] != '/' && key.Value[0] != '_' {
		return nil
	}
	names := strings.Split(key.Value[1:], "/")
	for _, name := range names {
		if name == "" {
			return nil
		}
	}
	return names
}
