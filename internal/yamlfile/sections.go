package yamlfile

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// DecodeSections is like Decode, for the configuration of a program that consists of nested components. A key that
// begins with a slash names a component. The key of an inner component either follows it or is in its section:
// "/Manager/Controller" is the same as "/Controller" in "/Manager". An underscore may replace the first slash. The
// yaml tags describe the nested form. An empty file has no sections.
func DecodeSections(name string, data []byte, into any) (*Document, error) {
	r := NewReader(name, data, Dialect{})
	if r.root == nil && len(r.faults) > 0 {
		return nil, r.Err()
	}
	if r.root != nil {
		r.decodeInto(nil, nestSections(r.root), into)
	}
	return r.doc, r.Err()
}

// nestSections converts the sections of a file to the nested form.
func nestSections(root *yaml.Node) *yaml.Node {
	if root.Kind != yaml.MappingNode {
		return root
	}
	var whole component
	whole.collectSections(root)
	return whole.sectionNode(root)
}

// A component collects a file's settings for one component from all places.
type component struct {
	name    string
	key     *yaml.Node   // of its section, or of an inner section
	given   bool         // it has a section
	value   *yaml.Node   // of a section that isn't a mapping
	content []*yaml.Node // keys and values that aren't sections
	inner   []*component
}

func (c *component) collectSections(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		names := componentNames(key)
		if names == nil {
			c.content = append(c.content, key, value)
			continue
		}
		outer, to := c, c
		for _, name := range names {
			outer, to = to, to.componentAt(name, key)
		}
		switch {
		case to.given: // the decoder reports the duplicate
			outer.content = append(outer.content, to.keyNode(key), value)
			continue
		case value.Kind == yaml.MappingNode:
			to.collectSections(value)
		default:
			to.value = value
		}
		to.given, to.key = true, key
	}
}

// componentAt returns the component with a name in c, and creates it if necessary.
func (c *component) componentAt(name string, key *yaml.Node) *component {
	for _, inner := range c.inner {
		if inner.name == name {
			return inner
		}
	}
	made := &component{name: name, key: key}
	c.inner = append(c.inner, made)
	return made
}

// sectionNode returns the component's section, with the place of another node.
func (c *component) sectionNode(at *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column}
	for _, inner := range c.inner {
		key := inner.keyNode(inner.key)
		value := inner.value
		if value == nil || isEmpty(value) && len(inner.inner) > 0 {
			value = inner.sectionNode(key)
		}
		n.Content = append(n.Content, key, value)
	}
	n.Content = append(n.Content, c.content...)
	return n
}

func (c *component) keyNode(at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "/" + c.name, Line: at.Line, Column: at.Column}
}

// componentNames returns the names on the way to a key's component, or nil if the key doesn't name a component.
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
