package yamlfile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Edit returns a file's text with one value replaced, and keeps the rest as its author has written it. The path
// consists of keys, and of numbers in lists; Edit creates missing parts of it. The value is YAML. If the text can't
// be changed in place, for example inside an alias, Edit rewrites the file with its comments, but with another
// layout.
func Edit(text []byte, value string, path ...string) ([]byte, error) {
	root, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	made, err := parseTree([]byte(value))
	if err != nil {
		return nil, err
	}
	wanted, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	if err := putAt(wanted, made, path); err != nil {
		return nil, err
	}
	if edited, ok := editInPlace(text, root, made, strings.TrimRight(value, "\n"), path); ok {
		if now, err := parseTree(edited); err == nil && sameTree(now, wanted) {
			return edited, nil
		}
	}
	out, err := encodeNode(wanted)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	if _, err := parseTree(out); err != nil {
		return nil, fmt.Errorf("%s can't be changed, because another place refers to it: %w", strings.Join(path,
			"."), err)
	}
	return out, nil
}

// encodeNode returns the text of a value.
func encodeNode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(n)
	return out.Bytes(), err
}

// Has reports whether a file's text contains a value at a path, as for Edit.
func Has(text []byte, path ...string) (bool, error) {
	n, err := parseTree(text)
	return descendTo(n, path) != nil, err
}

// parseTree returns the value of a document.
func parseTree(text []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := readNode(yaml.NewDecoder(bytes.NewReader(text)), &document); err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	return document.Content[0], nil
}

// putAt sets the value at a path and creates the mappings that lead there.
func putAt(n, value *yaml.Node, path []string) error {
	for i, step := range path {
		if n.Kind == yaml.AliasNode {
			*n = *cloneNode(n.Alias)
		}
		if isEmpty(n) {
			*n = *newMapping()
		}
		next := childOf(n, step)
		switch {
		case next == nil && n.Kind == yaml.MappingNode:
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: step}
			next = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
			n.Content = append(n.Content, key, next)
		case next == nil:
			return fmt.Errorf("there is no %s in the file", strings.Join(path[:i+1], "."))
		}
		n = next
	}
	comment := n.LineComment
	*n = *value
	n.LineComment = comment
	return nil
}

// childOf returns the value of a key, or an item of a list; nil if it doesn't exist.
func childOf(n *yaml.Node, step string) *yaml.Node {
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
		return nil
	}
	if i := keyIndex(n, step); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

func keyIndex(n *yaml.Node, key string) int {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// editInPlace replaces a value that is on one line, or inserts a line for its key. The result may be wrong: the
// caller must check it.
func editInPlace(text []byte, n, made *yaml.Node, value string, path []string) ([]byte, bool) {
	lines := strings.SplitAfter(string(text), "\n")
	parent := n
	for i, step := range path {
		next := childOf(n, step)
		if next == nil {
			return insertLine(lines, n, value, path[i:])
		}
		parent, n = n, next
	}
	if edited, ok := replaceBlock(lines, parent, n, made, value); ok {
		return edited, true
	}
	if n.Kind != yaml.ScalarNode || n.Line < 1 || n.Line > len(lines) {
		return nil, false
	}
	line := []rune(lines[n.Line-1])
	from := n.Column - 1
	length := sourceLength(line[min(from, len(line)):], n)
	if length < 0 {
		return nil, false
	}
	lines[n.Line-1] = string(line[:from]) + value + string(line[from+length:])
	return []byte(strings.Join(lines, "")), true
}

// replaceBlock replaces the value of a key at the beginning of a line, up to the next line that isn't indented
// further than the key. It applies if the old or the new value is more than a word on that line.
func replaceBlock(lines []string, parent, n, made *yaml.Node, value string) ([]byte, bool) {
	at := slices.Index(parent.Content, n) - 1
	if parent.Kind != yaml.MappingNode || parent.Style&yaml.FlowStyle != 0 || at < 0 {
		return nil, false
	}
	key := parent.Content[at]
	first, indent := key.Line-1, key.Column-1
	line := []rune(lines[first])
	length := sourceLength(line[indent:], key)
	if length < 0 || strings.TrimSpace(string(line[:indent])) != "" {
		return nil, false
	}
	end := first + 1
	for end < len(lines) && (strings.TrimSpace(lines[end]) == "" || indentationOf(lines[end]) > indent) {
		end++
	}
	for end > first+1 && strings.TrimSpace(lines[end-1]) == "" {
		end--
	}
	inBlock := made.Kind != yaml.ScalarNode && made.Style&yaml.FlowStyle == 0
	if end == first+1 && !inBlock && !strings.Contains(value, "\n") && n.Kind == yaml.ScalarNode {
		return nil, false // other parts of the line must stay
	}
	text := string(line[:indent+length]) + ":"
	if inBlock {
		value = "\n" + value
	} else {
		text += " "
	}
	margin := "\n" + strings.Repeat(" ", indent+2)
	text += strings.ReplaceAll(value, "\n", margin)
	if n.LineComment != "" && !strings.Contains(value, "\n") {
		text += " " + n.LineComment
	}
	text += "\n"
	return []byte(strings.Join(slices.Replace(lines, first, end, text), "")), true
}

func indentationOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// sourceLength returns the length of a scalar in its line, or -1 if it is unclear.
func sourceLength(line []rune, n *yaml.Node) int {
	quote := rune(0)
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		quote = '"'
	case n.Style&yaml.SingleQuotedStyle != 0:
		quote = '\''
	case n.Style != 0:
		return -1
	}
	if quote == 0 {
		if !strings.HasPrefix(string(line), n.Value) || n.Value == "" {
			return -1
		}
		return len([]rune(n.Value))
	}
	if len(line) == 0 || line[0] != quote {
		return -1
	}
	if end := slices.Index(line[1:], quote); end >= 0 {
		return end + 2
	}
	return -1
}

// insertLine inserts a key before the first key of a mapping with one key per line.
func insertLine(lines []string, n *yaml.Node, value string, path []string) ([]byte, bool) {
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle != 0 || len(n.Content) == 0 || len(path) != 1 {
		return nil, false
	}
	first := n.Content[0]
	indent := strings.Repeat(" ", first.Column-1)
	at := first.Line - 1
	if !strings.HasPrefix(lines[at], indent) || strings.TrimSpace(lines[at][:len(indent)]) != "" {
		at++ // the key follows the dash of a list's item
	}
	if at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
		return nil, false
	}
	lines = slices.Insert(lines, at, indent+path[0]+": "+value+"\n")
	return []byte(strings.Join(lines, "")), true
}

// sameTree reports whether two trees have the same values, regardless of layout and the order of keys.
func sameTree(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.Tag != b.Tag || a.Value != b.Value || a.Anchor != b.Anchor ||
		len(a.Content) != len(b.Content) {
		return false
	}
	if a.Kind != yaml.MappingNode {
		return slices.EqualFunc(a.Content, b.Content, sameTree)
	}
	for i := 0; i+1 < len(a.Content); i += 2 {
		j := keyIndex(b, a.Content[i].Value)
		if j < 0 || !sameTree(a.Content[i+1], b.Content[j+1]) {
			return false
		}
	}
	return true
}

// Value returns the value at a path, as for Edit, as YAML. there reports whether it exists.
func Value(text []byte, path ...string) (value string, there bool, err error) {
	n, err := parseTree(text)
	if err != nil {
		return "", false, err
	}
	if n = descendTo(n, path); n == nil {
		return "", false, nil
	}
	alone := *n
	alone.LineComment = "" // it belongs to the line
	out, err := encodeNode(&alone)
	if err == nil {
		_, err = parseTree(out)
	}
	if err != nil {
		return "", true, fmt.Errorf("%s refers to another place: %w", strings.Join(path, "."), err)
	}
	return string(out), true, nil
}

// descendTo returns the node at a path, or nil if it doesn't exist.
func descendTo(n *yaml.Node, path []string) *yaml.Node {
	for _, step := range path {
		if n == nil {
			break
		}
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		n = childOf(n, step)
	}
	return n
}
