package comingfrom

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vmop/yamlfile"
)

// parseYAML reads a YAML document. The keys of a mapping are the children of its part, and so are the items of a
// list, which are called item. The error shows no line of the document, which may have passwords for the guest.
func parseYAML(file string, text []byte) (*node, error) {
	values, document, err := yamlfile.Tree(file, text)
	if err != nil {
		return nil, errors.New(err.Error())
	}
	root := &node{line: 1}
	root.fill(values, "", document)
	root.setPaths()
	return root, nil
}

// fill adds what a value of YAML has, whose place in the document is at.
func (n *node) fill(value any, at string, document *yamlfile.Document) {
	child := func(name, at string, value any) {
		made := &node{name: name, line: document.Line(at)}
		made.fill(value, at, document)
		n.children = append(n.children, made)
	}
	switch v := value.(type) {
	case nil:
	case map[string]any:
		for key, value := range v {
			child(key, strings.TrimPrefix(at+"."+key, "."), value)
		}
		slices.SortFunc(n.children, func(a, b *node) int {
			if a.line != b.line {
				return a.line - b.line
			}
			return strings.Compare(a.name, b.name)
		})
	case []any:
		for i, value := range v {
			child("item", fmt.Sprintf("%s[%d]", at, i), value)
		}
	default:
		n.text = fmt.Sprint(v)
	}
}

// given returns a part that has a value; nil if there is none.
func (c *conversion) given(parent *node, name string) *node {
	n := parent.one(name)
	if n == nil {
		return nil
	}
	n.textSeen = true
	if n.text == "" && len(n.children) == 0 {
		c.drop(n, "isn't set")
		return nil
	}
	return n
}

// yamlFormat returns whose YAML a text is; "" if it is none that is known.
func yamlFormat(text []byte) Format {
	values, _, err := yamlfile.Tree("definition", text)
	if err != nil {
		return ""
	}
	_, hasDevices := values["devices"].(map[string]any)
	_, hasConfig := values["config"].(map[string]any)
	_, hasImages := values["images"]
	_, hasBase := values["base"]
	switch {
	case hasDevices && hasConfig:
		return Incus
	case hasImages || hasBase:
		return Lima
	}
	return ""
}
