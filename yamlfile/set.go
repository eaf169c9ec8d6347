package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"vmop/printable"
)

// SetFile is the File of faults that lie in what was set, not in the file. The
// line is the number of the setting, counted from 1.
const SetFile = "--set"

// Set changes the dialect's section as settings say, path=value:
// "vm.maximumCpus=8", "vm.drives[0].file=/x.img", "vm.network=[]". The value is
// YAML; nothing at all takes a key away. What is missing on the way is made, an
// index may be one more than there are items.
//
// A setting becomes a line behind those of the file, and what is made of it has
// its place there.
func (r *Reader) Set(settings ...string) {
	if r.root == nil {
		return
	}
	for _, setting := range settings {
		r.set(setting)
	}
}

func (r *Reader) set(setting string) {
	r.doc.lines = append(r.doc.lines, printable.Text(setting))
	s := &setter{report: r.report, line: len(r.doc.lines)}
	path, value, ok := strings.Cut(setting, "=")
	if !ok {
		s.refuse(0, "want path=value", "for example vm.maximumCpus=8")
		return
	}
	made := s.value(value, utf8.RuneCountInString(path)+1)
	n := r.sectionNode()
	if n == nil || made == nil {
		return // the file has no section, or the value is no YAML: that is said
	}
	at := 0
	for rest := path; ; {
		key, more := nextStep(rest)
		var slot *yaml.Node
		if slot = s.step(n, key, at); slot == nil {
			return
		}
		at += utf8.RuneCountInString(rest[:len(rest)-len(more)])
		if rest = more; rest == "" {
			*slot = *made
			return
		}
		n = slot
	}
}

// sectionNode returns what stands behind the key of the section, or nil.
func (r *Reader) sectionNode() *yaml.Node {
	if r.root.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(r.root.Content); i += 2 {
		if r.isSection(r.root.Content[i].Value) {
			return r.root.Content[i+1]
		}
	}
	return nil
}

// setter carries one setting out.
type setter struct {
	*report
	line int // of the setting
}

// refuse notes a fault at a column of the setting, counted from 0.
func (s *setter) refuse(column int, message, hint string) {
	s.add(s.line, column+1, "", message, hint)
}

// value parses the value, which begins at a column.
func (s *setter) value(text string, column int) *yaml.Node {
	var document yaml.Node
	err := read(yaml.NewDecoder(strings.NewReader(text)), &document)
	switch {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: s.line, Column: column + 1}
	case err != nil:
		_, message := splitSyntaxError(err)
		message, hint := explainSyntax(message)
		s.refuse(column, message, hint)
		return nil
	}
	s.move(document.Content[0], column)
	return document.Content[0]
}

// move puts nodes that were parsed alone to their place in the setting.
func (s *setter) move(n *yaml.Node, column int) {
	n.Line, n.Column = s.line, n.Column+column
	for _, inner := range n.Content {
		s.move(inner, column)
	}
}

// nextStep splits off the first step of a path: a key, or an index in brackets.
func nextStep(path string) (step, rest string) {
	if strings.HasPrefix(path, "[") {
		if end := strings.IndexByte(path, ']'); end >= 0 {
			return path[:end+1], strings.TrimPrefix(path[end+1:], ".")
		}
		return path, ""
	}
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end], strings.TrimPrefix(path[end:], ".")
	}
	return path, ""
}

// step returns the node that a step leads to from n, which is made if it isn't
// there, or nil after a fault.
func (s *setter) step(n *yaml.Node, step string, column int) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		*n = *clone(n.Alias) // the others stay as they are
	}
	if strings.HasPrefix(step, "[") {
		return s.item(n, step, column)
	}
	if step == "" {
		s.refuse(column, "a key is missing in the path", "for example vm.display.spice.port=5900")
		return nil
	}
	if isEmpty(n) {
		*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: s.line, Column: column + 1}
	}
	if n.Kind != yaml.MappingNode {
		s.refuse(column, "there is "+describe(n)+" here, which has no key "+clip(step), "")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value == step {
			key.Line, key.Column = s.line, column+1
			return n.Content[i+1]
		}
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: step, Line: s.line, Column: column + 1}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: s.line, Column: column + 1}
	n.Content = append(n.Content, key, value)
	return value
}

func (s *setter) item(n *yaml.Node, step string, column int) *yaml.Node {
	index, err := strconv.Atoi(strings.Trim(step, "[]"))
	if err != nil || index < 0 || !strings.HasSuffix(step, "]") {
		s.refuse(column, clip(step)+" is no index", "for example vm.drives[0].file=/x.img")
		return nil
	}
	if isEmpty(n) {
		*n = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: s.line, Column: column + 1}
	}
	if n.Kind != yaml.SequenceNode {
		s.refuse(column, "there is "+describe(n)+" here, which has no items", "")
		return nil
	}
	if index > len(n.Content) {
		message := fmt.Sprintf("the list has %d items, so %s is too far", len(n.Content), clip(step))
		s.refuse(column, message, fmt.Sprintf("the next is [%d]", len(n.Content)))
		return nil
	}
	if index == len(n.Content) {
		n.Content = append(n.Content, &yaml.Node{
			Kind: yaml.ScalarNode, Tag: "!!null", Line: s.line,
			Column: column + 1,
		})
	}
	return n.Content[index]
}

// clone copies a node and all in it.
func clone(n *yaml.Node) *yaml.Node {
	c := *n
	c.Anchor, c.Content = "", slices.Clone(n.Content)
	for i := range c.Content {
		c.Content[i] = clone(c.Content[i])
	}
	return &c
}
