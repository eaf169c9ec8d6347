package convert

import (
	"fmt"
	"slices"
	"strings"
)

// node is a part of the input. Its methods accept a nil node, which is a missing part, and mark the parts that
// they return as known.
type node struct {
	name, path string
	line       int
	text       string
	origin     string  // the template that it comes from; "" for the definition itself
	raw        []byte  // the text so far, while it is being read
	attributes []*node // attributes have no children
	children   []*node

	isAttribute          bool
	seen, textSeen, gone bool
}

func (n *node) markSeen() {
	if n != nil {
		n.seen = true
	}
}

// seeAll marks the node and everything below it as known.
func (n *node) seeAll() {
	n.seen, n.textSeen = true, true
	for _, of := range [][]*node{n.attributes, n.children} {
		for _, each := range of {
			each.seeAll()
		}
	}
}

// attributeNode returns an attribute as a node, or nil.
func (n *node) attributeNode(name string) *node {
	if n == nil {
		return nil
	}
	for _, a := range n.attributes {
		if a.name == name {
			a.markSeen()
			a.textSeen = true
			return a
		}
	}
	return nil
}

// attributeValue returns the value of an attribute, or "".
func (n *node) attributeValue(name string) string {
	if a := n.attributeNode(name); a != nil {
		return a.text
	}
	return ""
}

// firstChild returns the first child with a name, or nil. Further children with this name stay unmarked.
func (n *node) firstChild(name string) *node {
	if all := n.childrenNamed(name); len(all) > 0 {
		all[0].markSeen()
		return all[0]
	}
	return nil
}

// childrenNamed returns the children with a name, without marking them.
func (n *node) childrenNamed(name string) (all []*node) {
	if n == nil {
		return nil
	}
	for _, child := range n.children {
		if child.name == name {
			all = append(all, child)
		}
	}
	return all
}

// takeChildren returns the children with a name.
func (n *node) takeChildren(name string) []*node {
	all := n.childrenNamed(name)
	for _, child := range all {
		child.markSeen()
	}
	return all
}

// textValue returns the text of a node.
func (n *node) textValue() string {
	if n == nil {
		return ""
	}
	n.textSeen = true
	return n.text
}

// setPaths sets the paths of all nodes below this node. A path contains the names that lead to a node, with a
// number if several siblings have the same name.
func (n *node) setPaths() {
	count := map[string]int{}
	for _, child := range n.children {
		count[child.name]++
	}
	number := map[string]int{}
	for _, child := range n.children {
		number[child.name]++
		child.path = strings.TrimPrefix(n.path+"/"+child.name, "/")
		if count[child.name] > 1 {
			child.path += fmt.Sprintf("[%d]", number[child.name])
		}
		child.setPaths()
	}
	for _, a := range n.attributes {
		a.path = strings.TrimPrefix(n.path+"/@"+a.name, "/")
	}
}

// findPath returns the node with a path, or nil. It ignores attributes.
func (n *node) findPath(path string) *node {
	for _, child := range n.children {
		if child.path == path {
			return child
		}
		if found := child.findPath(path); found != nil {
			return found
		}
	}
	return nil
}

// removeGone removes the nodes that are marked as gone.
func (n *node) removeGone() {
	n.children = slices.DeleteFunc(n.children, func(child *node) bool { return child.gone })
	for _, child := range n.children {
		child.removeGone()
	}
}
