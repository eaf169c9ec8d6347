package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vmop/internal/yamlfile"
)

// parseYAML reads a YAML document. The keys of a mapping become children of its node. The items of a list become
// children with the name item. Errors never quote lines of the document, because it may contain passwords for the
// guest.
func parseYAML(file string, text []byte) (*node, error) {
	values, document, err := yamlfile.Tree(file, text)
	if err != nil {
		return nil, errors.New(err.Error())
	}
	root := &node{line: 1}
	root.fillFrom(values, "", document)
	root.setPaths()
	return root, nil
}

// fillFrom adds the content of a YAML value. at is the path of the value in the document.
func (n *node) fillFrom(value any, at string, document *yamlfile.Document) {
	child := func(name, at string, value any) {
		made := &node{name: name, line: document.Line(at)}
		made.fillFrom(value, at, document)
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

// givenPart returns a child with a value, or nil.
func (c *conversion) givenPart(parent *node, name string) *node {
	n := parent.firstChild(name)
	if n == nil {
		return nil
	}
	n.textSeen = true
	if n.text == "" && len(n.children) == 0 {
		c.dropPart(n, "isn't set")
		return nil
	}
	return n
}

// yamlFormat returns the format of a YAML text, or "" if it is unknown.
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
