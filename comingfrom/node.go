package comingfrom

import (
	"fmt"
	"slices"
	"strings"
)

// node is a part of the input. Its methods accept nil, which is a part that isn't there, and mark what they return
// as known.
type node struct {
	name, path string
	line       int
	text       string
	raw        []byte  // the text, while it is being read
	attributes []*node // their names have no children
	children   []*node

	isAttribute          bool
	seen, textSeen, gone bool
}

func (n *node) see() {
	if n != nil {
		n.seen = true
	}
}

// seeAll marks all that a part has.
func (n *node) seeAll() {
	n.seen, n.textSeen = true, true
	for _, of := range [][]*node{n.attributes, n.children} {
		for _, each := range of {
			each.seeAll()
		}
	}
}

// attribute returns an attribute as a part; nil if there is none.
func (n *node) attribute(name string) *node {
	if n == nil {
		return nil
	}
	for _, a := range n.attributes {
		if a.name == name {
			a.see()
			a.textSeen = true
			return a
		}
	}
	return nil
}

// get returns the value of an attribute; "" if there is none.
func (n *node) get(name string) string {
	if a := n.attribute(name); a != nil {
		return a.text
	}
	return ""
}

// one returns the first child of a name; nil if there is none. Further ones stay unknown.
func (n *node) one(name string) *node {
	if all := n.named(name); len(all) > 0 {
		all[0].see()
		return all[0]
	}
	return nil
}

// named returns the children of a name, without marking them.
func (n *node) named(name string) (all []*node) {
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

// all returns the children of a name.
func (n *node) all(name string) []*node {
	all := n.named(name)
	for _, child := range all {
		child.see()
	}
	return all
}

// value returns a part's text.
func (n *node) value() string {
	if n == nil {
		return ""
	}
	n.textSeen = true
	return n.text
}

// setPaths gives the parts below this one their paths: the names that lead there, with a number where there are
// several of a name.
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

// find returns the part of a path, which is no attribute; nil if there is none.
func (n *node) find(path string) *node {
	for _, child := range n.children {
		if child.path == path {
			return child
		}
		if found := child.find(path); found != nil {
			return found
		}
	}
	return nil
}

// remove removes what is gone.
func (n *node) remove() {
	n.children = slices.DeleteFunc(n.children, func(child *node) bool { return child.gone })
	for _, child := range n.children {
		child.remove()
	}
}
