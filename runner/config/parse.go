package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// largestFile bounds a configuration file; a ConfigMap can't be larger either.
const largestFile = 1 << 20

// parse reads the bytes of a file as one YAML document and returns its topmost
// node; nil if there are faults, or if it is empty and no runner's.
func (r *report) parse(data []byte) *yaml.Node {
	if len(data) > largestFile {
		r.lines = []string{""}
		r.add(1, 1, "", fmt.Sprintf("the file has %d bytes", len(data)), "the most is 1 MiB")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	r.lines = splitLines(data)
	if !r.isText(data) {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	err := read(decoder, &document)
	if err == nil && len(document.Content) == 1 && !isEmpty(document.Content[0]) {
		switch nextErr := read(decoder, &next); {
		case errors.Is(nextErr, io.EOF):
			return document.Content[0]
		case nextErr != nil:
			err = nextErr
		default:
			r.add(next.Line, next.Column, "", "a second document", "there is one configuration in a file")
			return nil
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		if !r.other {
			r.add(1, 1, "", "the file is empty", `its section "/Runner" describes the VM`)
		}
		return nil
	}
	r.syntax(data, err)
	return nil
}

// read reads one document. The reader panics where it finds itself in a state
// that its authors thought impossible; to the user that is a syntax error too.
func read(decoder *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("yaml: %v", fault)
		}
	}()
	return decoder.Decode(into)
}

// isText wants UTF-8 and no characters that YAML forbids
// (https://yaml.org/spec/1.2.2/#51-character-set).
func (r *report) isText(data []byte) bool {
	line, column := 1, 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			r.add(line, column, "", fmt.Sprintf("not UTF-8: byte 0x%02x", data[i]), "save the file as UTF-8")
			return false
		case c == '\n':
			line, column = line+1, 0
		case c == '\r' || c == 0x85 || c == 0x2028 || c == 0x2029:
			if c != '\r' || i+1 == len(data) || data[i+1] != '\n' {
				line, column = line+1, 0
			}
		case c != '\t' && (c < ' ' || c >= 0x7f && c < 0xa0 || c == 0xfeff || c == 0xfffe || c == 0xffff):
			r.add(line, column, "", fmt.Sprintf("the character %U", c), `write it as an escape in a text in double quotes`)
			return false
		}
		i += size
		column++
	}
	return true
}

// splitLines splits at what YAML takes for a line break.
func splitLines(data []byte) []string {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	return strings.Split(strings.NewReplacer("\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text), "\n")
}

// syntax notes a syntax error. The parser tells at best a line, and often that
// of the beginning of what it was reading, so the place is found here: the
// first line with which the same error appears when the rest is cut off.
func (r *report) syntax(data []byte, err error) {
	line, message := splitSyntaxError(err)
	if len(data) <= largestFile/8 { // beyond, a vague answer at once is better
		if at, found := r.firstLineWith(message); found {
			line = at
		}
	}
	line = max(1, min(line, len(r.lines)))
	source := r.lines[line-1]
	indent := len(source) - len(strings.TrimLeft(source, " "))
	if strings.HasPrefix(source[indent:], "\t") {
		r.add(line, indent+1, "", "a tab in the indentation", "YAML wants blanks")
		return
	}
	message, hint := explainSyntax(message)
	r.add(line, indent+1, "", message, hint)
	if r.inCloudInit(line) {
		r.faults[len(r.faults)-1].Source = "" // there are passwords in there
	}
}

// inCloudInit tells whether a line seems to belong to the section cloudInit of
// a file that can't be parsed: no line between is indented less.
func (r *report) inCloudInit(line int) bool {
	least := len(r.lines[line-1]) + largestFile
	for i := line - 1; i >= 0; i-- {
		text := strings.TrimLeft(r.lines[i], " ")
		indent := len(r.lines[i]) - len(text)
		if strings.Contains(text, "cloudInit") && (indent < least || i == line-1) {
			return true
		}
		if i < line-1 && text != "" && text[0] != '#' {
			least = min(least, indent)
		}
	}
	return false
}

// firstLineWith looks for the first line that brings a syntax error about.
// Errors don't go away by what follows, so halving finds it.
func (r *report) firstLineWith(message string) (line int, found bool) {
	fails := func(lines int) bool {
		_, other := splitSyntaxError(parseAll(strings.Join(r.lines[:lines], "\n") + "\n"))
		return other == message
	}
	if !fails(len(r.lines)) {
		return 0, false
	}
	low, high := 0, len(r.lines) // fails(high), and not fails(low)
	for high-low > 1 {
		if middle := (low + high) / 2; fails(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

func parseAll(text string) error {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for range 2 {
		var node yaml.Node
		if err := read(decoder, &node); err != nil {
			return err
		}
	}
	return nil
}

// splitSyntaxError cuts "yaml: line 3: did not find expected key".
func splitSyntaxError(err error) (line int, message string) {
	if err == nil || errors.Is(err, io.EOF) {
		return 0, ""
	}
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, numbered := strings.CutPrefix(message, "line "); numbered {
		if number, text, cut := strings.Cut(rest, ": "); cut {
			line, _ = strconv.Atoi(number) // 0 stands for unknown
			message = text
		}
	}
	return line, message
}

// explainSyntax puts the parser's most frequent complaints into the words of a
// user.
func explainSyntax(message string) (text, hint string) {
	for _, known := range []struct{ part, text, hint string }{
		{"did not find expected key", "neither a key nor the end of the section", "is the line indented as those above it?"},
		{"did not find expected '-' indicator", "neither an item nor the end of the list", "is the line indented as those above it?"},
		{"mapping values are not allowed", "a second colon in the line, or a key where none can be", "put a text with a colon in quotes; check the indentation"},
		{"could not find expected ':'", "a key without a colon", ""},
		{"did not find expected ',' or '}'", "the braces {…} are not closed", ""},
		{"did not find expected ',' or ']'", "the brackets […] are not closed", ""},
		{"found unexpected end of stream", "the quotes are not closed", ""},
		{"found character that cannot start any token", "a character that can't start a value", "put the text in quotes"},
		{"exceeded max depth", "nested too deeply", ""},
	} {
		if strings.Contains(message, known.part) {
			return known.text, known.hint
		}
	}
	return message, ""
}

func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
