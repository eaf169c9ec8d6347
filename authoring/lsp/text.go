package lsp

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// A text is the content of a document with its lines. It is immutable.
type text struct {
	content string
	starts  []int // byte offsets of the lines
}

func newText(content string) *text {
	t := &text{content: content, starts: []int{0}}
	for i := 0; i < len(content); i++ {
		if content[i] == '\n' || content[i] == '\r' && (i+1 == len(content) || content[i+1] != '\n') {
			t.starts = append(t.starts, i+1)
		}
	}
	return t
}

// lineText returns a line without its line end; n counts from 0.
func (t *text) lineText(n int) string {
	if n < 0 || n >= len(t.starts) {
		return ""
	}
	end := len(t.content)
	if n+1 < len(t.starts) {
		end = t.starts[n+1]
	}
	return strings.TrimRight(t.content[t.starts[n]:end], "\r\n")
}

// offsetOf returns the byte offset of a position. For a position outside the text, it returns the nearest offset.
func (t *text) offsetOf(p position) int {
	switch {
	case p.Line < 0:
		return 0
	case p.Line >= len(t.starts):
		return len(t.content)
	}
	line, units := t.lineText(p.Line), 0
	for i, r := range line {
		if units >= p.Character {
			return t.starts[p.Line] + i
		}
		units += unitsOf(r)
	}
	return t.starts[p.Line] + len(line)
}

// positionOf returns the position of a byte.
func (t *text) positionOf(offset int) position {
	offset = max(0, min(offset, len(t.content)))
	line := sort.SearchInts(t.starts, offset+1) - 1
	return position{line, unitsIn(t.content[t.starts[line]:offset])}
}

// columnPosition returns the position for a line and a column in Starlark. Both count from 1; columns count code
// points.
func (t *text) columnPosition(line, column int) position {
	s := t.lineText(line - 1)
	units := 0
	for _, r := range s {
		if column <= 1 {
			break
		}
		units += unitsOf(r)
		column--
	}
	return position{max(line-1, 0), units}
}

// spanBetween returns the span between two byte offsets.
func (t *text) spanBetween(start, end int) span { return span{t.positionOf(start), t.positionOf(end)} }

// wholeSpan returns the span of the whole text.
func (t *text) wholeSpan() span { return t.spanBetween(0, len(t.content)) }

// applyChanges returns the text after the changes. Each change applies to the result of the previous change.
func (t *text) applyChanges(changes []contentChange) *text {
	for _, c := range changes {
		if c.Range == nil {
			t = newText(c.Text)
			continue
		}
		start, end := t.offsetOf(c.Range.Start), t.offsetOf(c.Range.End)
		t = newText(t.content[:start] + c.Text + t.content[max(start, end):])
	}
	return t
}

// unitsOf returns the number of UTF-16 code units of a character.
func unitsOf(r rune) int {
	if r >= 0x10000 && r != utf8.RuneError {
		return 2
	}
	return 1
}

func unitsIn(s string) int {
	units := 0
	for _, r := range s {
		units += unitsOf(r)
	}
	return units
}
