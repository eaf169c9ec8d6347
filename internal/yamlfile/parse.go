package yamlfile

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

// LargestFile is the maximum size of a file in bytes; a ConfigMap can't be larger either.
const LargestFile = 1 << 20

// TooLarge returns the error for a file that is too large to be read, of type Faults.
func TooLarge(file string, size int64) error { return Faults{tooLarge(file, size)} }

func tooLarge(file string, size int64) Fault {
	const most = "the maximum is 1 MiB"
	return Fault{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("the file has %d bytes", size), Hint: most}
}

// parseDocument parses the bytes of a file as one YAML document and returns its topmost node. It returns nil if there
// are errors or the file is empty.
func (r *Reader) parseDocument(data []byte) *yaml.Node {
	if len(data) > LargestFile {
		r.doc.lines = []string{""}
		r.faults = append(r.faults, tooLarge(r.doc.name, int64(len(data))))
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	r.doc.lines = splitLines(data)
	if !r.isText(data) {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, next yaml.Node
	err := readNode(decoder, &document)
	if err == nil && len(document.Content) == 1 && !isEmpty(document.Content[0]) {
		switch nextErr := readNode(decoder, &next); {
		case errors.Is(nextErr, io.EOF):
			return document.Content[0]
		case nextErr != nil:
			err = nextErr
		default:
			r.addFault(next.Line, next.Column, "", "a second document", "there is one configuration in a file")
			return nil
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	r.noteSyntaxError(data, err)
	return nil
}

// readNode reads one document. The parser panics in states that its authors thought impossible; for the user that is
// also a syntax error.
func readNode(decoder *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("yaml: %v", fault)
		}
	}()
	return decoder.Decode(into)
}

// isText checks that the data is UTF-8 without characters that YAML forbids
// (https://yaml.org/spec/1.2.2/#51-character-set).
func (r *Reader) isText(data []byte) bool {
	line, column := 1, 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			r.addFault(line, column, "", fmt.Sprintf("not UTF-8: byte 0x%02x", data[i]), "save the file as UTF-8")
			return false
		case c == '\n':
			line, column = line+1, 0
		case c == '\r' || c == 0x85 || c == 0x2028 || c == 0x2029:
			if c != '\r' || i+1 == len(data) || data[i+1] != '\n' {
				line, column = line+1, 0
			}
		case isForbidden(c):
			hint := `write it as an escape in a text in double quotes`
			r.addFault(line, column, "", fmt.Sprintf("the character %U", c), hint)
			return false
		}
		i += size
		column++
	}
	return true
}

// isForbidden reports whether YAML forbids a character, which must not be a line break.
func isForbidden(c rune) bool {
	control := c < ' ' && c != '\t' || c >= 0x7f && c < 0xa0
	return control || c == 0xfeff || c == 0xfffe || c == 0xffff
}

// splitLines splits at all line breaks of YAML.
func splitLines(data []byte) []string {
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	return strings.Split(breaks.Replace(string(data)), "\n")
}

// noteSyntaxError records a syntax error. The parser reports at best a line, and often the beginning of what it was
// parsing. Therefore syntax looks for the place itself: the first line that causes the same error when the rest is cut
// off.
func (r *Reader) noteSyntaxError(data []byte, err error) {
	line, message := splitSyntaxError(err)
	if len(data) <= LargestFile/8 { // for larger files a vague but fast answer is better
		if at, found := r.firstLineWith(message); found {
			line = at
		}
	}
	line = max(1, min(line, len(r.doc.lines)))
	source := r.doc.lines[line-1]
	indent := len(source) - len(strings.TrimLeft(source, " "))
	if strings.HasPrefix(source[indent:], "\t") {
		r.addFault(line, indent+1, "", "a tab in the indentation", "YAML wants blanks")
		return
	}
	message, hint := explainSyntax(message)
	r.addFault(line, indent+1, "", message, hint)
	if r.inSecret(line) {
		r.faults[len(r.faults)-1].Source = ""
	}
}

// inSecret reports whether a line of a file with a syntax error seems to belong to the secret key: no line between
// the two is indented less.
func (r *Reader) inSecret(line int) bool {
	if r.doc.secret == "" {
		return false
	}
	least := len(r.doc.lines[line-1]) + LargestFile
	for i := line - 1; i >= 0; i-- {
		text := strings.TrimLeft(r.doc.lines[i], " ")
		indent := len(r.doc.lines[i]) - len(text)
		if strings.Contains(text, r.doc.secret) && (indent < least || i == line-1) {
			return true
		}
		if i < line-1 && text != "" && text[0] != '#' {
			least = min(least, indent)
		}
	}
	return false
}

// firstLineWith finds the first line that causes a syntax error. Later lines can't remove an error, so a binary
// search finds it.
func (r *Reader) firstLineWith(message string) (line int, found bool) {
	fails := func(lines int) bool {
		_, other := splitSyntaxError(parseAll(strings.Join(r.doc.lines[:lines], "\n") + "\n"))
		return other == message
	}
	if !fails(len(r.doc.lines)) {
		return 0, false
	}
	low, high := 0, len(r.doc.lines) // fails(high) is true, and fails(low) is false
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
		if err := readNode(decoder, &node); err != nil {
			return err
		}
	}
	return nil
}

// splitSyntaxError splits errors such as "yaml: line 3: did not find expected key".
func splitSyntaxError(err error) (line int, message string) {
	if err == nil || errors.Is(err, io.EOF) {
		return 0, ""
	}
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, numbered := strings.CutPrefix(message, "line "); numbered {
		if number, text, cut := strings.Cut(rest, ": "); cut {
			line, _ = strconv.Atoi(number) // 0 means unknown
			message = text
		}
	}
	return line, message
}

// explainSyntax translates the parser's most frequent messages for users.
func explainSyntax(message string) (text, hint string) {
	const (
		indented = "is the line indented as those above it?"
		colon    = "put a text with a colon in quotes; check the indentation"
	)
	for _, known := range []struct{ part, text, hint string }{
		{"did not find expected key", "neither a key nor the end of the section", indented},
		{"did not find expected '-' indicator", "neither an item nor the end of the list", indented},
		{"mapping values are not allowed", "a second colon in the line, or a key where none can be", colon},
		{"could not find expected ':'", "a key without a colon", ""},
		{"did not find expected ',' or '}'", "the braces {…} are not closed", ""},
		{"did not find expected ',' or ']'", "the brackets […] are not closed", ""},
		{"found unexpected end of stream", "the quotes are not closed", ""},
		{"found character that cannot start", "a character that can't start a value", "put the text in quotes"},
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
