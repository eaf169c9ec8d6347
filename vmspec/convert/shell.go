package convert

import (
	"fmt"
	"strings"
)

// parseShell reads assignments of a shell, NAME="TEXT" and NAME=("TEXT" "TEXT"), without executing anything. It
// rejects texts that would have to be executed. The assignments are the children of the root; the texts of a list
// are children of their assignment.
func parseShell(file string, text []byte) (*node, error) {
	s := &shell{file: file, text: string(text), line: 1}
	root := &node{line: 1}
	for {
		s.skipSpace(true)
		if s.text == "" {
			root.setPaths()
			return root, nil
		}
		n, err := s.readAssignment()
		if err != nil {
			return nil, err
		}
		if root.children = append(root.children, n); len(root.children) > mostAssignments {
			return nil, s.faultAt("too many assignments")
		}
	}
}

// mostAssignments is the maximum number of assignments in a file; quickemu knows about fifty.
const mostAssignments = 1000

// shell contains the rest of the text.
type shell struct {
	file, text string
	line       int
}

func (s *shell) faultAt(message string) error {
	return fmt.Errorf("%s:%d: %s", s.file, s.line, message)
}

// skipSpace skips blanks and, if lines is true, line breaks and comments.
func (s *shell) skipSpace(lines bool) {
	for s.text != "" {
		switch c := s.text[0]; {
		case c == ' ' || c == '\t' || c == '\r':
		case lines && c == '\n':
			s.line++
		case lines && c == '#':
			end := strings.IndexByte(s.text, '\n')
			if end < 0 {
				end = len(s.text)
			}
			s.text = s.text[end:]
			continue
		default:
			return
		}
		s.text = s.text[1:]
	}
}

const (
	lettersOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
	lettersOfWords = lettersOfNames + "./:,+@%-"
)

func (s *shell) readAssignment() (*node, error) {
	rest := strings.TrimLeft(s.text, lettersOfNames)
	n := &node{name: s.text[:len(s.text)-len(rest)], line: s.line}
	if n.name == "" || !strings.HasPrefix(rest, "=") {
		return nil, s.faultAt("must be NAME=\"TEXT\": no other lines are read, and no commands are executed")
	}
	s.text = rest[1:]
	if strings.HasPrefix(s.text, "(") {
		s.text = s.text[1:]
		for s.skipSpace(true); !strings.HasPrefix(s.text, ")"); s.skipSpace(true) {
			item := &node{name: "item", line: s.line}
			var err error
			if item.text, err = s.readWord(); err != nil {
				return nil, err
			}
			if n.children = append(n.children, item); len(n.children) > mostAssignments {
				return nil, s.faultAt("too many texts in a list")
			}
		}
		s.text = s.text[1:]
	} else if s.text != "" && !strings.ContainsAny(s.text[:1], " \t\r\n") {
		var err error
		if n.text, err = s.readWord(); err != nil {
			return nil, err
		}
	}
	s.skipSpace(false)
	if s.text != "" && s.text[0] != '\n' && s.text[0] != '#' {
		return nil, s.faultAt("after the assignment there is something that would have to be executed")
	}
	return n, nil
}

// readWord reads a text, with or without quotes.
func (s *shell) readWord() (string, error) {
	if s.text == "" {
		return "", s.faultAt("the file ends in an assignment")
	}
	quote := s.text[:1]
	if quote != `"` && quote != "'" {
		rest := strings.TrimLeft(s.text, lettersOfWords)
		word := s.text[:len(s.text)-len(rest)]
		if s.text = rest; word == "" {
			return "", s.faultAt("must be text in quotes")
		}
		return word, nil
	}
	word, rest, isEnded := strings.Cut(s.text[1:], quote)
	switch {
	case !isEnded || strings.Contains(word, "\n"):
		return "", s.faultAt("the quote isn't closed on its line")
	case quote == `"` && strings.ContainsAny(word, "$`\\"):
		return "", s.faultAt("$, ` and \\ would have to be executed: write the text itself")
	}
	s.text = rest
	return word, nil
}

// isShell reports whether a text contains an assignment that every file of quickemu contains.
func isShell(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "guest_os=") || strings.HasPrefix(line, "disk_img=") {
			return true
		}
	}
	return false
}
