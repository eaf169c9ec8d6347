package yamlfile

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// source is the text of a file that is changed in place. The result may be wrong if the file is written in an
// unusual way, so the caller must check it.
type source struct {
	lines  []string // with their line ends
	end    string   // the line end
	offset int      // indentation of the file's lists relative to their keys
}

func newSource(text []byte, root *yaml.Node) *source {
	s := &source{lines: strings.SplitAfter(string(text), "\n"), end: "\n"}
	if strings.HasSuffix(s.lines[0], "\r\n") {
		s.end = "\r\n"
	}
	if last := len(s.lines) - 1; s.lines[last] == "" {
		s.lines = s.lines[:last]
	}
	s.offset = max(0, listOffset(root))
	return s
}

func (s *source) sourceText() []byte { return []byte(strings.Join(s.lines, "")) }

// listOffset returns how much further the first list of a tree is indented than its key, or -1 if the tree has no
// list.
func listOffset(n *yaml.Node) int {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && c.Kind == yaml.SequenceNode && !inFlow(c) &&
			c.Line > n.Content[i-1].Line {
			return c.Column - n.Content[i-1].Column
		}
		if found := listOffset(c); found >= 0 {
			return found
		}
	}
	return -1
}

func (s *source) insertItem(l *list, at int, made *yaml.Node, value string) bool {
	switch {
	case l.node == nil && inFlow(l.parent):
		one := newMapping()
		addPair(one, l.last, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{made}})
		text, ok := flowText(one)
		text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
		return ok && s.insertFlow(l.parent, len(l.parent.Content)/2, text)
	case l.node == nil:
		return s.insertKey(l, value)
	case len(l.node.Content) == 0 && l.key != nil && !inFlow(l.parent) && s.clearEmptyList(l):
		s.insertLines(l.key.Line, s.itemLines(value, l.key.Column-1+s.offset, 2))
		return true
	case inFlow(l.node):
		text, ok := flowText(made)
		return ok && s.insertFlow(l.node, at, text)
	case len(l.node.Content) == 0:
		return false
	}
	indent, offset, line := l.node.Column-1, 2, s.dashLine(l.node, 0)
	if first := l.node.Content[0]; first.Line-1 == line {
		offset = max(offset, first.Column-l.node.Column)
	}
	if at > 0 {
		line = s.endOf(s.dashLine(l.node, at-1), indent)
	} else if !s.isFirstInLine(line, indent) {
		return false
	}
	s.insertLines(line, s.itemLines(value, indent, offset))
	return true
}

// insertKey inserts a key with a list of one item at the end of a mapping.
func (s *source) insertKey(l *list, value string) bool {
	n := len(l.parent.Content)
	if n == 0 {
		return false
	}
	key, last := l.parent.Content[n-2], l.parent.Content[n-1]
	indent, from := key.Column-1, key.Line-1
	if last.Kind == yaml.SequenceNode && !inFlow(last) && last.Column == key.Column {
		from = s.dashLine(last, len(last.Content)-1)
	}
	name := newMapping()
	addPair(name, l.last, &yaml.Node{Kind: yaml.SequenceNode})
	text, err := encodeNode(name)
	if err != nil {
		return false
	}
	head := strings.Repeat(" ", indent) + strings.TrimSuffix(string(text), " []\n") + s.end
	s.insertLines(s.endOf(from, indent), append([]string{head}, s.itemLines(value, indent+s.offset, 2)...))
	return true
}

// itemLines returns the lines of an item. indent is the number of blanks before its dash, and offset the distance from
// the dash to the value.
func (s *source) itemLines(value string, indent, offset int) (lines []string) {
	head := strings.Repeat(" ", indent) + "-" + strings.Repeat(" ", offset-1)
	for line := range strings.SplitSeq(value, "\n") {
		if line == "" && lines != nil {
			head = ""
		}
		lines = append(lines, head+line+s.end)
		head = strings.Repeat(" ", indent+offset)
	}
	return lines
}

// insertLines inserts lines before a line, or at the end.
func (s *source) insertLines(at int, lines []string) {
	if at == len(s.lines) && at > 0 && !strings.HasSuffix(s.lines[at-1], "\n") {
		s.lines[at-1] += s.end
	}
	s.lines = slices.Insert(s.lines, at, lines...)
}

// clearEmptyList removes the empty list after a key, so that items can follow.
func (s *source) clearEmptyList(l *list) bool {
	if l.node.Style&yaml.TaggedStyle != 0 {
		return false
	}
	word := l.node.Value
	if l.node.Kind == yaml.SequenceNode {
		word = "[]"
	}
	at := l.key.Line - 1
	if word == "" {
		return true
	}
	line := []rune(s.lines[at])
	if l.node.Line != l.key.Line || l.node.Column > len(line) {
		return false
	}
	before, after := string(line[:l.node.Column-1]), string(line[l.node.Column-1:])
	after, there := strings.CutPrefix(after, word)
	if there {
		s.lines[at] = strings.TrimRight(before, " ") + after
	}
	return there
}

func (s *source) removeItem(l *list, at int) bool {
	if inFlow(l.node) {
		return s.removeFlow(l.node, at)
	}
	indent, from := l.node.Column-1, s.dashLine(l.node, at)
	if !s.isFirstInLine(from, indent) {
		return false
	}
	end := s.endOf(from, indent)
	if len(l.node.Content) == 1 {
		if l.key == nil || l.key.Line-1 >= from {
			return false
		}
		line := []rune(s.lines[l.key.Line-1])
		length := sourceLength(line[l.key.Column-1:], l.key)
		colon := l.key.Column - 1 + length
		if length < 0 || colon >= len(line) || line[colon] != ':' {
			return false
		}
		s.lines[l.key.Line-1] = string(line[:colon+1]) + " []" + string(line[colon+1:])
	}
	s.lines = slices.Delete(s.lines, from, end)
	return true
}

// dashLine returns the line, counted from 0, where an item of a block list begins.
func (s *source) dashLine(n *yaml.Node, i int) int {
	first := n.Line - 1
	for line := n.Content[i].Line - 1; i > 0 && line > first; line-- {
		if line < len(s.lines) && s.isFirstInLine(line, n.Column-1) &&
			strings.HasPrefix(s.lines[line][n.Column-1:], "-") {
			return line
		}
	}
	return first
}

// isFirstInLine reports whether the text of a line begins at a column, counted from 0, after blanks.
func (s *source) isFirstInLine(line, column int) bool {
	return line < len(s.lines) && indentationOf(s.lines[line]) == column
}

// endOf returns the line after a block that begins in a line and continues in the lines that are indented more than
// indent. It doesn't count empty lines at the end, or comments there that aren't indented further.
func (s *source) endOf(first, indent int) int {
	neutral := func(line string) bool {
		text := strings.TrimSpace(line)
		return text == "" || text[0] == '#' && indentationOf(line) <= indent
	}
	end := first + 1
	for i := end; i < len(s.lines) && (neutral(s.lines[i]) || indentationOf(s.lines[i]) > indent); i++ {
		if !neutral(s.lines[i]) {
			end = i + 1
		}
	}
	return min(end, len(s.lines))
}
