package adopt

import (
	"fmt"
	"strings"
)

// A word is a word of a command line.
type word struct {
	text string
	line int // counted from 1
	// unknown is the first part that only a shell could replace by its value, such as "$HOME"; "" if there is none.
	unknown string
	// end is set for the end of a command. Its text is the operator.
	end bool
}

// A shellReader splits the text of a shell into words, without executing anything. It replaces variables that the text
// itself sets.
type shellReader struct {
	text      string
	line      int
	variables map[string][]word
	words     []word
	size      int // bytes of all words
}

// The limits of a command line. Real command lines have at most some hundred words.
const (
	mostWords    = 10_000
	largestWords = 4 << 20
)

// readShell splits a shell's text into words.
func readShell(text string) ([]word, error) {
	s := &shellReader{text: text, line: 1, variables: map[string][]word{}}
	for s.skipBlanks(); s.text != ""; s.skipBlanks() {
		if s.readOperator() {
			continue
		}
		list, err := s.readWord()
		if err != nil {
			return nil, err
		}
		if len(list) == 1 && s.isCommandStart() && s.assignVariable(list[0]) {
			if name, value, _ := strings.Cut(list[0].text, "="); value == "" && strings.HasPrefix(s.text, "(") {
				if err := s.readArray(strings.CutSuffix(name, "+")); err != nil {
					return nil, err
				}
			}
			continue
		}
		s.words = append(s.words, list...)
		for _, w := range list {
			s.size += len(w.text)
		}
		if len(s.words) > mostWords || s.size > largestWords {
			return nil, fmt.Errorf("line %d: the command line has more than %d words or %d MiB", s.line, mostWords,
				largestWords>>20)
		}
	}
	return s.words, nil
}

// skipBlanks skips blanks, comments and continued lines.
func (s *shellReader) skipBlanks() {
	for s.text != "" {
		switch {
		case s.text[0] == ' ' || s.text[0] == '\t' || s.text[0] == '\r':
			s.text = s.text[1:]
		case strings.HasPrefix(s.text, "\\\n"):
			s.text, s.line = s.text[2:], s.line+1
		case strings.HasPrefix(s.text, "\\\r\n"):
			s.text, s.line = s.text[3:], s.line+1
		case s.text[0] == '#':
			s.skipComment()
		default:
			return
		}
	}
}

// skipComment skips a comment. A comment between two continued lines does not end the command: the author has disabled
// a line, and a shell would execute the rest as another command.
func (s *shellReader) skipComment() {
	comment, rest, found := strings.Cut(s.text, "\n")
	if !found {
		s.text = ""
		return
	}
	if !strings.HasSuffix(strings.TrimRight(comment, "\r"),
		"\\") && !strings.HasPrefix(strings.TrimLeft(rest, " \t"), "-") {
		s.text = s.text[len(comment):]
		return
	}
	s.text, s.line = rest, s.line+1
}

// readOperator reads the end of a command.
func (s *shellReader) readOperator() bool {
	switch c := s.text[0]; c {
	case '\n', ';', '&', '|', '(', ')', '<', '>':
		s.text = s.text[1:]
		s.words = append(s.words, word{text: string(c), line: s.line, end: true})
		if c == '\n' {
			s.line++
		}
		return true
	}
	return false
}

// isCommandStart reports whether the next word begins a command.
func (s *shellReader) isCommandStart() bool {
	n := len(s.words)
	return n == 0 || s.words[n-1].end || s.words[n-1].text == "export" || s.words[n-1].text == "local"
}

const lettersOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

// assignVariable stores NAME=VALUE, and reports whether the word is an assignment.
func (s *shellReader) assignVariable(w word) bool {
	name, value, found := strings.Cut(w.text, "=")
	bare := strings.TrimSuffix(name, "+")
	if !found || bare == "" || strings.Trim(bare, lettersOfNames) != "" {
		return false
	}
	if value == "" && strings.HasPrefix(s.text, "(") {
		return true // the value is a list
	}
	w.text = value
	if bare != name {
		if old := s.variables[bare]; len(old) > 0 {
			w.text = old[len(old)-1].text + value
		}
	}
	s.variables[bare] = []word{w}
	return true
}

// readArray reads the words between parentheses. extended means that they follow the words that the list has.
func (s *shellReader) readArray(name string, extended bool) error {
	s.text = s.text[1:]
	list := []word{}
	if extended {
		list = append(list, s.variables[name]...)
	}
	for {
		s.skipBlanks()
		switch {
		case s.text == "":
			return fmt.Errorf("line %d: the list %s has no end; add )", s.line, name)
		case s.text[0] == ')':
			s.text = s.text[1:]
			s.variables[name] = list
			return nil
		case s.text[0] == '\n':
			s.text, s.line = s.text[1:], s.line+1
			continue
		case strings.ContainsAny(s.text[:1], ";&|()<>"):
			return fmt.Errorf("line %d: the list %s contains %q outside of quotes", s.line, name, s.text[:1])
		}
		words, err := s.readWord()
		if err != nil {
			return err
		}
		if list = append(list, words...); len(list) > mostWords {
			return fmt.Errorf("line %d: the list %s has more than %d words", s.line, name, mostWords)
		}
	}
}

// A wordBuilder collects the parts of a word. A variable with several words produces several.
type wordBuilder struct {
	done    []word
	current word
	quoted  bool // the word exists even if it is empty
}

// readWord reads a word with its quotes. An array, or a variable outside of quotes, can produce several words or none.
func (s *shellReader) readWord() ([]word, error) {
	b := &wordBuilder{current: word{line: s.line}}
	quote := byte(0)
	from := s.line
	for s.text != "" {
		c := s.text[0]
		switch {
		case quote == 0 && strings.IndexByte(" \t\r\n;&|<>()", c) >= 0:
			return b.endWord(), nil
		case quote == '\'' && c != '\'':
			b.addText(string(c))
			s.text = s.text[1:]
		case c == quote && quote != 0:
			quote, s.text = 0, s.text[1:]
		case quote == 0 && (c == '\'' || c == '"'):
			quote, b.quoted, s.text = c, true, s.text[1:]
		case c == '\\':
			s.readEscape(b, quote)
		case c == '$' || c == '`':
			s.readExpansion(b, quote)
		default:
			b.addText(string(c))
			s.text = s.text[1:]
		}
		if c == '\n' {
			s.line++
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("line %d: the quote %c has no end", from, quote)
	}
	return b.endWord(), nil
}

func (b *wordBuilder) addText(text string) { b.current.text += text }

func (b *wordBuilder) endWord() []word {
	if b.current.text != "" || b.quoted || b.current.unknown != "" {
		b.done = append(b.done, b.current)
	}
	return b.done
}

// readEscape reads a backslash and what follows it.
func (s *shellReader) readEscape(b *wordBuilder, quote byte) {
	rest := s.text[1:]
	switch {
	case strings.HasPrefix(rest, "\n"):
		s.text, s.line = rest[1:], s.line+1
	case rest == "":
		b.addText(`\`)
		s.text = rest
	case quote == '"' && strings.IndexByte("$`\"\\", rest[0]) < 0:
		b.addText(`\`)
		s.text = rest
	default:
		b.addText(rest[:1])
		s.text = rest[1:]
	}
}

// readExpansion reads a variable, or a command that a shell would replace by its output.
func (s *shellReader) readExpansion(b *wordBuilder, quote byte) {
	text := s.cutExpansion()
	s.line += strings.Count(text, "\n")
	name := strings.Trim(text, "${}")
	array := false
	for _, suffix := range []string{"[@]", "[*]"} {
		if before, found := strings.CutSuffix(name, suffix); found {
			name, array = before, true
		}
	}
	name, otherwise, hasDefault := strings.Cut(name, ":-")
	list, known := s.variables[name]
	switch {
	case text == "$":
		b.addText(text)
		return
	case strings.HasPrefix(text, "$(") || strings.HasPrefix(text, "`") || !known && !hasDefault:
		if b.current.unknown == "" {
			b.current.unknown = text
		}
		b.addText(text)
		return
	case !known:
		list = []word{{text: otherwise}}
	}
	if !array && quote == 0 { // a shell splits the value
		list = splitWords(list)
	}
	for i, w := range list {
		if i > 0 {
			b.done = append(b.done, b.current)
			b.current = word{line: b.current.line}
		}
		b.addText(w.text)
		if b.current.unknown == "" {
			b.current.unknown = w.unknown
		}
	}
}

func splitWords(list []word) (words []word) {
	for _, w := range list {
		for _, text := range strings.Fields(w.text) {
			words = append(words, word{text: text, line: w.line, unknown: w.unknown})
		}
	}
	return words
}

// cutExpansion removes $NAME, ${…}, $(…) or `…` from the text and returns it.
func (s *shellReader) cutExpansion() string {
	end := 1
	switch {
	case strings.HasPrefix(s.text, "${"):
		end = endOf(s.text, 2, '{', '}')
	case strings.HasPrefix(s.text, "$("):
		end = endOf(s.text, 2, '(', ')')
	case s.text[0] == '`':
		end = len(s.text)
		if at := strings.IndexByte(s.text[1:], '`'); at >= 0 {
			end = at + 2
		}
	default:
		for end < len(s.text) && strings.IndexByte(lettersOfNames, s.text[end]) >= 0 {
			end++
		}
	}
	text := s.text[:end]
	s.text = s.text[end:]
	return text
}

// endOf returns the index after the bracket that closes the bracket before from.
func endOf(text string, from int, open, end byte) int {
	depth := 1
	for i := from; i < len(text); i++ {
		switch text[i] {
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}
