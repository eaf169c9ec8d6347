package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// mostBases limits the templates that a definition is based on.
const mostBases = 32

// addBases merges the templates in "base" into a definition, as Lima does. file is the name of the definition, and
// above are the names of the definitions that lead to it.
func (c *conversion) addBases(root *node, file string, above ...string) {
	at := root.firstChild("base")
	if at == nil || c.options.Base == nil || slices.Contains(c.options.Without, at.path) {
		return
	}
	items := at.children
	if at.text != "" {
		items = []*node{at}
	}
	var names []string
	for _, item := range items {
		locator := item.text
		if url := item.firstChild("url"); url != nil {
			locator = url.text
		}
		base, name, err := c.readBase(item, locator, file, append(above, file))
		if err != nil {
			c.blockPart(at, err.Error(), "limactl template copy --fill TEMPLATE FILE makes a whole one")
			return
		}
		c.addBases(base, name, append(above, file)...)
		root.mergeBase(base)
		names = append(names, locator)
	}
	at.seeAll()
	root.children = slices.DeleteFunc(root.children, func(n *node) bool { return n == at })
	root.setPaths()
	if len(names) > 0 {
		c.keepPart(at, "the template is completed by "+strings.Join(names, ", "))
	}
}

// readBase reads a template that a definition is based on.
func (c *conversion) readBase(item *node, locator, file string, above []string) (root *node, name string, err error) {
	if item.firstChild("digest") != nil {
		return nil, "", errors.New("the digest of a template is not checked")
	}
	if c.bases++; c.bases > mostBases {
		return nil, "", fmt.Errorf("the template is based on more than %d others", mostBases)
	}
	text, name, err := c.options.Base(locator, file)
	if err != nil {
		return nil, "", err
	}
	if slices.Contains(above, name) {
		return nil, "", fmt.Errorf("the template %s is based on itself", locator)
	}
	if root, err = parseYAML(name, text); err != nil {
		return nil, "", err
	}
	root.setOrigin(locator)
	return root, name, nil
}

func (n *node) setOrigin(origin string) {
	n.origin = origin
	for _, child := range n.children {
		child.setOrigin(origin)
	}
}

// mergeBase adds what a template has and this node lacks. Items of lists follow the own items, but what runs in the
// guest comes first.
func (n *node) mergeBase(base *node) {
	for _, child := range base.children {
		same := n.childrenNamed(child.name)
		switch {
		case len(same) == 0:
			n.children = append(n.children, child)
		case same[0].isList() && child.isList() && child.name == "dns":
		case same[0].isList() && child.isList() && (child.name == "provision" || child.name == "probes"):
			same[0].children = slices.Concat(child.children, same[0].children)
		case same[0].isList() && child.isList():
			same[0].children = append(same[0].children, child.children...)
		case len(same[0].children) > 0 && !same[0].isList() && !child.isList():
			same[0].mergeBase(child)
		}
	}
}

// isList reports whether a node is a list with items.
func (n *node) isList() bool { return len(n.children) > 0 && n.children[0].name == "item" }
