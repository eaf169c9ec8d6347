package yamlfile

import (
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// flow contains the positions of the parts of a list or mapping in brackets or braces, in characters of the text.
type flow struct {
	open, shut int   // the brackets
	commas     []int // between its items, and after the last item
	last       int   // after the last character that isn't blank or in a comment
}

// scanFlow parses a list or mapping that begins at a bracket.
func scanFlow(text []rune, open int) (f flow, ok bool) {
	f = flow{open: open, last: open + 1}
	depth, before := 0, rune('[') // the previous character that isn't blank or in a comment
	for i := open; i < len(text); i++ {
		c := text[i]
		switch {
		case unicode.IsSpace(c):
			continue
		case c == '#' && i > 0 && unicode.IsSpace(text[i-1]):
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
			continue
		case (c == '"' || c == '\'') && strings.ContainsRune("[{,:?", before):
			i = quotedEnd(text, i)
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				f.shut = i
				return f, true
			}
		case c == ',' && depth == 1:
			f.commas = append(f.commas, i)
		}
		before, f.last = c, i+1
	}
	return f, false
}

// quotedEnd returns the position of the closing quote for an opening quote.
func quotedEnd(text []rune, i int) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i
		}
	}
	return i
}

// offsetOf returns the position of a node, in characters of the text.
func (s *source) offsetOf(n *yaml.Node) int {
	from := n.Column - 1
	for _, line := range s.lines[:min(n.Line-1, len(s.lines))] {
		from += len([]rune(line))
	}
	return from
}

// setText replaces the text of the source.
func (s *source) setText(text []rune) { s.lines = strings.SplitAfter(string(text), "\n") }

// flowText returns a value on one line.
func flowText(n *yaml.Node) (text string, ok bool) {
	one := cloneNode(n)
	inOneLine(one)
	out, err := encodeNode(one)
	text = strings.TrimSuffix(string(out), "\n")
	return text, err == nil && !strings.Contains(text, "\n")
}

func inOneLine(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	n.Style &^= yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case n.Kind != yaml.ScalarNode:
		n.Style |= yaml.FlowStyle
	case strings.ContainsAny(n.Value, "\n,[]{}"):
		n.Style |= yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		inOneLine(c)
	}
}

// insertFlow inserts a text before an item of a list, or before a key of a mapping.
func (s *source) insertFlow(n *yaml.Node, at int, text string) bool {
	all := []rune(string(s.sourceText()))
	f, ok := scanFlow(all, s.offsetOf(n))
	items := itemsOf(n)
	switch {
	case !ok || f.open >= len(all):
		return false
	case len(items) == 0:
		s.setText(slices.Insert(all, f.open+1, []rune(text)...))
		return true
	}
	own, prefix := s.ownLine(items[min(at, len(items)-1)])
	if at < len(items) {
		text += ","
		if own {
			text += s.end + prefix
		} else {
			text += " "
		}
		s.setText(slices.Insert(all, s.offsetOf(items[at]), []rune(text)...))
		return true
	}
	trailing := len(f.commas) >= len(items)
	where := f.last
	if own && slices.Contains(all[where:f.shut], '\n') { // after a comment
		where += slices.Index(all[where:], '\n')
		text = s.end + prefix + text
		if s.end != "\n" {
			where -= len(s.end) - 1
		}
	} else {
		text = " " + text
	}
	if trailing {
		text += ","
	}
	all = slices.Insert(all, where, []rune(text)...)
	if !trailing {
		all = slices.Insert(all, f.last, ',')
	}
	s.setText(all)
	return true
}

// itemsOf returns the items of a list, or the keys of a mapping.
func itemsOf(n *yaml.Node) (items []*yaml.Node) {
	step := 1
	if n.Kind == yaml.MappingNode {
		step = 2
	}
	for i := 0; i < len(n.Content); i += step {
		items = append(items, n.Content[i])
	}
	return items
}

// ownLine reports whether a node is the first on its line. prefix is the text before it.
func (s *source) ownLine(n *yaml.Node) (own bool, prefix string) {
	line := []rune(s.lines[min(n.Line, len(s.lines))-1])
	prefix = string(line[:min(n.Column-1, len(line))])
	return strings.TrimSpace(prefix) == "", prefix
}

// removeFlow removes an item from a list.
func (s *source) removeFlow(n *yaml.Node, at int) bool {
	all := []rune(string(s.sourceText()))
	f, ok := scanFlow(all, s.offsetOf(n))
	if !ok || len(f.commas) < len(n.Content)-1 {
		return false
	}
	from, to := s.offsetOf(n.Content[at]), f.last
	if at < len(f.commas) {
		to = f.commas[at] + 1
	}
	own, _ := s.ownLine(n.Content[at])
	switch {
	case from > to || to > f.shut:
		return false
	case len(n.Content) == 1 && !slices.Contains(all[f.open:f.shut], '\n'):
		from, to = f.open+1, f.shut
	case at == len(n.Content)-1 && at > 0 && !own:
		from = f.commas[at-1]
		if at < len(f.commas) { // one comma stays
			to--
		}
	default:
		for to < len(all) && all[to] == ' ' {
			to++
		}
		if own && strings.HasPrefix(string(all[to:min(to+2, len(all))]), s.end) { // its lines contain only this item
			for from > 0 && all[from-1] != '\n' {
				from--
			}
			to += len(s.end)
		}
	}
	s.setText(slices.Delete(all, from, to))
	return true
}
