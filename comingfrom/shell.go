package comingfrom

import (
	"fmt"
	"strings"
)

// parseShell reads assignments of a shell, NAME="TEXT" and NAME=("TEXT" "TEXT"), without executing anything: what
// would have to be executed is refused. The assignments are the children of the tree, the texts of a list theirs.
func parseShell(file string, text []byte) (*node, error) {
	s := &shell{file: file, text: string(text), line: 1}
	root := &node{line: 1}
	for {
		s.space(true)
		if s.text == "" {
			root.setPaths()
			return root, nil
		}
		n, err := s.assignment()
		if err != nil {
			return nil, err
		}
		if root.children = append(root.children, n); len(root.children) > mostAssignments {
			return nil, s.fault("too many assignments")
		}
	}
}

// mostAssignments bounds a file; quickemu knows some fifty.
const mostAssignments = 1000

// shell is what has not been read yet.
type shell struct {
	file, text string
	line       int
}

func (s *shell) fault(message string) error {
	return fmt.Errorf("%s:%d: %s", s.file, s.line, message)
}

// space skips blanks and, if wanted, line breaks and comments.
func (s *shell) space(lines bool) {
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

func (s *shell) assignment() (*node, error) {
	rest := strings.TrimLeft(s.text, lettersOfNames)
	n := &node{name: s.text[:len(s.text)-len(rest)], line: s.line}
	if n.name == "" || !strings.HasPrefix(rest, "=") {
		return nil, s.fault("want NAME=\"TEXT\": nothing else is read, and nothing is executed")
	}
	s.text = rest[1:]
	if strings.HasPrefix(s.text, "(") {
		s.text = s.text[1:]
		for s.space(true); !strings.HasPrefix(s.text, ")"); s.space(true) {
			item := &node{name: "item", line: s.line}
			var err error
			if item.text, err = s.word(); err != nil {
				return nil, err
			}
			if n.children = append(n.children, item); len(n.children) > mostAssignments {
				return nil, s.fault("too many texts in a list")
			}
		}
		s.text = s.text[1:]
	} else if s.text != "" && !strings.ContainsAny(s.text[:1], " \t\r\n") {
		var err error
		if n.text, err = s.word(); err != nil {
			return nil, err
		}
	}
	s.space(false)
	if s.text != "" && s.text[0] != '\n' && s.text[0] != '#' {
		return nil, s.fault("after the assignment there is something that would have to be executed")
	}
	return n, nil
}

// word reads a text, quoted or not.
func (s *shell) word() (string, error) {
	if s.text == "" {
		return "", s.fault("the file ends in an assignment")
	}
	quote := s.text[:1]
	if quote != `"` && quote != "'" {
		rest := strings.TrimLeft(s.text, lettersOfWords)
		word := s.text[:len(s.text)-len(rest)]
		if s.text = rest; word == "" {
			return "", s.fault("want a text in quotes")
		}
		return word, nil
	}
	word, rest, isEnded := strings.Cut(s.text[1:], quote)
	switch {
	case !isEnded || strings.Contains(word, "\n"):
		return "", s.fault("the quote isn't closed on its line")
	case quote == `"` && strings.ContainsAny(word, "$`\\"):
		return "", s.fault("$, ` and \\ would have to be executed: write the text itself")
	}
	s.text = rest
	return word, nil
}

// isShell reports whether a text has assignments that quickemu wants.
func isShell(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "guest_os=") || strings.HasPrefix(line, "disk_img=") {
			return true
		}
	}
	return false
}
