package lsp

import "strings"

// A cursor is a place in a text, with the information that is available without parsing: while an author types, the
// text usually can't be parsed.
type cursor struct {
	content string
	offset  int
	comment bool
	// str is the start of the content of the string at the cursor, after its quotes; -1 outside a string.
	str  int
	open []bracket // open brackets, innermost last
}

// A bracket is an open bracket.
type bracket struct {
	kind     byte // ( [ {
	at       int
	argument int // start of the current argument
	commas   int // before the cursor
}

// cursorAt reads a text up to an offset.
func cursorAt(content string, offset int) cursor {
	c := cursor{content: content, offset: offset, str: -1}
	for i := 0; i < offset; {
		switch b := content[i]; b {
		case '#':
			end := strings.IndexAny(content[i:], "\n\r")
			if end < 0 || i+end >= offset {
				c.comment = true
				return c
			}
			i += end
		case '"', '\'':
			next := c.skipString(i)
			if next > offset || next < 0 {
				return c
			}
			c.str, i = -1, next
		case '(', '[', '{':
			c.open = append(c.open, bracket{kind: b, at: i, argument: i + 1})
			i++
		case ')', ']', '}':
			if len(c.open) > 0 {
				c.open = c.open[:len(c.open)-1]
			}
			i++
		case ',':
			if n := len(c.open); n > 0 {
				c.open[n-1].commas++
				c.open[n-1].argument = i + 1
			}
			i++
		default:
			i++
		}
	}
	return c
}

// skipString returns the offset after the string that begins at i, or -1 if the string does not end. It stores the
// start of the string's content in str.
func (c *cursor) skipString(i int) int {
	quote := c.content[i : i+1]
	if strings.HasPrefix(c.content[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	c.str = i + len(quote)
	for j := c.str; j < len(c.content); j++ {
		switch {
		case c.content[j] == '\\':
			j++
		case strings.HasPrefix(c.content[j:], quote):
			return j + len(quote)
		case len(quote) == 1 && (c.content[j] == '\n' || c.content[j] == '\r'):
			if j < c.offset {
				return j // an unterminated string ends with its line
			}
			return -1
		}
	}
	return -1
}

// enclosingCall returns the innermost call around the cursor: the path of the called function, and the bracket.
func (c *cursor) enclosingCall() (function string, b bracket, ok bool) {
	for i := len(c.open) - 1; i >= 0; i-- {
		if c.open[i].kind != '(' {
			continue
		}
		end := c.open[i].at
		for end > 0 && (c.content[end-1] == ' ' || c.content[end-1] == '\t') {
			end--
		}
		if path, _ := pathBefore(c.content, end); path != "" {
			return path, c.open[i], true
		}
	}
	return "", bracket{}, false
}

// keywordBefore returns the keyword of the current argument in a bracket, or "".
func (c *cursor) keywordBefore(b bracket) string {
	if b.argument > c.offset {
		return ""
	}
	name, rest, ok := strings.Cut(c.content[b.argument:c.offset], "=")
	name = strings.TrimSpace(name)
	if !ok || strings.HasPrefix(rest, "=") || name == "" ||
		strings.IndexFunc(name, func(r rune) bool { return r > 127 || !isWordByte(byte(r)) }) >= 0 {
		return ""
	}
	return name
}

// pathBefore returns the dotted names that end at an offset, without indices: "vm.network[].ma". start is the start of
// the last name.
func pathBefore(content string, end int) (path string, start int) {
	start = end
	for start > 0 && isWordByte(content[start-1]) {
		start--
	}
	path = content[start:end]
	at := start
	for at > 0 && content[at-1] == '.' {
		at--
		name := ""
		if at > 0 && content[at-1] == ']' {
			open := strings.LastIndexByte(content[:at], '[')
			if open < 0 || strings.ContainsAny(content[open:at-1], "\n\"']") {
				return path, start
			}
			at, name = open, "[]"
		}
		from := at
		for from > 0 && isWordByte(content[from-1]) {
			from--
		}
		if from == at {
			return "." + path, start // the object has no name: f(x).path
		}
		path, at = content[from:at]+name+"."+path, from
	}
	return path, start
}

// wordAt returns the path that ends with the word around an offset, and the bounds of that word.
func wordAt(content string, offset int) (path string, start, end int) {
	end = offset
	for end < len(content) && isWordByte(content[end]) {
		end++
	}
	path, start = pathBefore(content, end)
	return path, start, end
}
