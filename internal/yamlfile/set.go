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

	"vmop/internal/printable"
)

// SetFile is the File of Faults in settings. Their line is the number of the setting, counted from 1.
const SetFile = "--set"

// Set changes the dialect's section with settings of the form path=value: "vm.maximumCpus=8",
// "vm.drives[0].file=/x.img", "vm.network=[]". The value is YAML; an empty value removes a key. Set creates missing
// parts of the path. The index may equal the number of items, which appends an item.
//
// Each setting becomes a line after the lines of the file. Its values have their places there.
func (r *Reader) Set(settings ...string) {
	if r.root == nil {
		return
	}
	for _, setting := range settings {
		r.applySetting(setting)
	}
}

func (r *Reader) applySetting(setting string) {
	r.doc.lines = append(r.doc.lines, printable.Text(setting))
	s := &setter{report: r.report, line: len(r.doc.lines)}
	path, value, ok := strings.Cut(setting, "=")
	if !ok {
		s.refuseSetting(0, "must be path=value", "for example vm.maximumCpus=8")
		return
	}
	made := s.parseValue(value, utf8.RuneCountInString(path)+1)
	n := r.sectionNode()
	if n == nil || made == nil {
		return // the file has no section, or the value isn't YAML: an error is already recorded
	}
	at := 0
	for rest := path; ; {
		key, more := nextStep(rest)
		var slot *yaml.Node
		if slot = s.stepInto(n, key, at); slot == nil {
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

// sectionNode returns the value of the section's key, or nil.
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

// setter applies one setting.
type setter struct {
	*report
	line int // the line of the setting
}

// refuseSetting records an error at a column of the setting, counted from 0.
func (s *setter) refuseSetting(column int, message, hint string) {
	s.addFault(s.line, column+1, "", message, hint)
}

// parseValue parses the value, which begins at a column.
func (s *setter) parseValue(text string, column int) *yaml.Node {
	var document yaml.Node
	err := readNode(yaml.NewDecoder(strings.NewReader(text)), &document)
	switch {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: s.line, Column: column + 1}
	case err != nil:
		_, message := splitSyntaxError(err)
		message, hint := explainSyntax(message)
		s.refuseSetting(column, message, hint)
		return nil
	}
	s.moveNodes(document.Content[0], column)
	return document.Content[0]
}

// moveNodes moves separately parsed nodes to their place in the setting.
func (s *setter) moveNodes(n *yaml.Node, column int) {
	n.Line, n.Column = s.line, n.Column+column
	for _, inner := range n.Content {
		s.moveNodes(inner, column)
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

// stepInto returns the node that a step leads to from n, and creates it if necessary. After an error it returns nil.
func (s *setter) stepInto(n *yaml.Node, step string, column int) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		*n = *cloneNode(n.Alias) // other aliases stay unchanged
	}
	if strings.HasPrefix(step, "[") {
		return s.itemNode(n, step, column)
	}
	if step == "" {
		s.refuseSetting(column, "a key is missing in the path", "for example vm.display.spice.port=5900")
		return nil
	}
	if isEmpty(n) {
		*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: s.line, Column: column + 1}
	}
	if n.Kind != yaml.MappingNode {
		s.refuseSetting(column, "there is "+describeNode(n)+" here, which has no key "+clipWord(step), "")
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

func (s *setter) itemNode(n *yaml.Node, step string, column int) *yaml.Node {
	index, err := strconv.Atoi(strings.Trim(step, "[]"))
	if err != nil || index < 0 || !strings.HasSuffix(step, "]") {
		s.refuseSetting(column, clipWord(step)+" is not an index", "for example vm.drives[0].file=/x.img")
		return nil
	}
	if isEmpty(n) {
		*n = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: s.line, Column: column + 1}
	}
	if n.Kind != yaml.SequenceNode {
		s.refuseSetting(column, "there is "+describeNode(n)+" here, which has no items", "")
		return nil
	}
	if index > len(n.Content) {
		message := fmt.Sprintf("the list has %d items, so %s is too far", len(n.Content), clipWord(step))
		s.refuseSetting(column, message, fmt.Sprintf("the next is [%d]", len(n.Content)))
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

// cloneNode copies a node and its contents.
func cloneNode(n *yaml.Node) *yaml.Node {
	c := *n
	c.Anchor, c.Content = "", slices.Clone(n.Content)
	for i := range c.Content {
		c.Content[i] = cloneNode(c.Content[i])
	}
	return &c
}
