package yamlfile

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// InsertItem returns a file's text with an additional item in a list, before the item with the index at, which
// counts from 0. The length of the list as index appends the item. The path leads to the list as for Edit; a last
// key that is missing, or has no value, is an empty list. The value is YAML. InsertItem changes only the lines that
// must change. If that isn't possible, for example because another place refers to the list, it returns an error.
func InsertItem(text []byte, value string, at int, path ...string) ([]byte, error) {
	made, err := parseTree([]byte(value))
	if err != nil {
		return nil, err
	}
	return editList(text, path, func(l *list) error {
		if at < 0 || at > len(l.listItems()) {
			return fmt.Errorf("%s has %d items, so none can be at %d", l.name, len(l.listItems()), at)
		}
		l.insertItem(at, made)
		return nil
	}, func(s *source, l *list) bool { return s.insertItem(l, at, made, strings.TrimRight(value, "\n")) })
}

// RemoveItem returns a file's text without the item at an index of a list, counted from 0. It keeps comments above
// the item and removes comments on the item's lines. Otherwise it works like InsertItem.
func RemoveItem(text []byte, at int, path ...string) ([]byte, error) {
	return editList(text, path, func(l *list) error {
		if at < 0 || at >= len(l.listItems()) {
			return fmt.Errorf("%s has %d items, and none at %d", l.name, len(l.listItems()), at)
		}
		l.node.Content = slices.Delete(l.node.Content, at, at+1)
		return nil
	}, func(s *source, l *list) bool { return s.removeItem(l, at) })
}

// editList changes a list with change, and the text with propose. It uses the proposed text only if it has the same
// values as the changed list.
func editList(text []byte, path []string, change func(*list) error, propose func(*source, *list) bool) ([]byte, error) {
	root, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	wanted, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	l, err := listAt(wanted, path)
	if err != nil {
		return nil, err
	}
	if err := change(l); err != nil {
		return nil, err
	}
	l, err = listAt(root, path)
	if err != nil {
		return nil, err
	}
	s := newSource(text, root)
	if propose(s, l) {
		now, err := parseTree(s.sourceText())
		switch {
		case err == nil && sameTree(now, wanted):
			return s.sourceText(), nil
		case err != nil && strings.Contains(err.Error(), "unknown anchor"):
			return nil, fmt.Errorf("an item of %s can't be removed, because another place refers to it: %w", l.name,
				err)
		}
	}
	return nil, fmt.Errorf("%s, line %d, is written in a way that can't be changed in place; change it in an editor",
		l.name, l.lineOfList())
}

// list is the position of a list in the tree of a file.
type list struct {
	name   string
	last   string     // last step of the path
	parent *yaml.Node // contains the list
	key    *yaml.Node // nil in a list of lists, and if it doesn't exist yet
	node   *yaml.Node // nil if it doesn't exist yet
}

// listAt returns the list at a path; only the last key may be missing.
func listAt(root *yaml.Node, path []string) (*list, error) {
	l := &list{name: strings.Join(path, "."), node: root}
	for i, step := range path {
		where := strings.Join(path[:i+1], ".")
		l.last = step
		next := childOf(l.node, step)
		l.parent, l.key = l.node, nil
		if next == nil {
			if i < len(path)-1 || l.node.Kind != yaml.MappingNode {
				return nil, fmt.Errorf("there is no %s in the file", where)
			}
			isMerge := func(n *yaml.Node) bool { return n.ShortTag() == "!!merge" }
			if slices.ContainsFunc(l.node.Content, isMerge) {
				return nil, fmt.Errorf("%s may be in what line %d includes by <<; write it out there", where,
					l.node.Line)
			}
			l.node = nil
			return l, nil
		}
		if next.Kind == yaml.AliasNode {
			return nil, fmt.Errorf("%s, line %d, refers to another place, *%s; write it out", where, next.Line,
				next.Value)
		}
		if next.Anchor != "" {
			return nil, fmt.Errorf("%s, line %d, may be what other places refer to, as &%s; write it out in each",
				where, next.Line, next.Anchor)
		}
		if at := keyIndex(l.node, step); at >= 0 {
			l.key = l.node.Content[at]
		}
		l.node = next
	}
	if l.node.Kind != yaml.SequenceNode && !isEmpty(l.node) {
		return nil, fmt.Errorf("%s, line %d, is %s, not a list", l.name, l.node.Line, describeNode(l.node))
	}
	return l, nil
}

func (l *list) listItems() []*yaml.Node {
	if l.node == nil {
		return nil
	}
	return l.node.Content
}

// lineOfList returns the line of the list, or of the node that will contain it.
func (l *list) lineOfList() int {
	switch {
	case l.key != nil:
		return l.key.Line
	case l.node != nil:
		return l.node.Line
	}
	return l.parent.Line
}

// insertItem inserts an item into the tree.
func (l *list) insertItem(at int, item *yaml.Node) {
	if l.node == nil {
		l.node = &yaml.Node{Kind: yaml.SequenceNode}
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: l.last}
		l.parent.Content = append(l.parent.Content, key, l.node)
	}
	*l.node = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: slices.Insert(l.node.Content, at, item)}
}

// inFlow reports whether a node is written in braces or brackets.
func inFlow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }
