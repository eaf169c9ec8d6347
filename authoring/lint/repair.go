package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/syntax"
)

// A Repair is a change of the module with a finding that corrects the finding.
//
// See docs/decisions/0197-repairs-are-data.md.
type Repair struct {
	// Title describes the change: "Replace maximumRm with maximumRam".
	Title string `json:"title"`
	// Edits do not overlap. They are sorted by place.
	Edits []Edit `json:"edits"`
}

// An Edit replaces the text between two places, which count like the places of a [Finding].
type Edit struct {
	Line      int `json:"line"`
	Column    int `json:"column"`
	EndLine   int `json:"endLine"`
	EndColumn int `json:"endColumn"`
	// Text is the new text.
	Text string `json:"text"`
}

// Apply returns the source of a module after the edits of all repairs. If two repairs overlap, it applies only the
// first one. fixed is the number of applied repairs.
func Apply(source string, repairs []*Repair) (text string, fixed int) {
	type change struct {
		start, end int
		text       string
	}
	var done []change
	for _, r := range repairs {
		var own []change
		conflict := false
		for _, e := range r.Edits {
			c := change{offsetAt(source, e.Line, e.Column), offsetAt(source, e.EndLine, e.EndColumn), e.Text}
			if slices.Contains(done, c) {
				continue // another repair has made the same change
			}
			conflict = conflict || slices.ContainsFunc(done, func(other change) bool {
				return c.start < other.end && other.start < c.end || c.start == other.start
			})
			own = append(own, c)
		}
		if !conflict {
			done, fixed = append(done, own...), fixed+1
		}
	}
	slices.SortFunc(done, func(a, b change) int { return cmp.Compare(b.start, a.start) })
	for _, c := range done {
		source = source[:c.start] + c.text + source[c.end:]
	}
	return source, fixed
}

// offsetAt returns the byte offset of a place. Line and column count from 1, columns in characters.
func offsetAt(source string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		end := strings.IndexByte(source[at:], '\n')
		if end < 0 {
			return len(source)
		}
		at += end + 1
	}
	for i := range source[at:] {
		if column <= 1 || source[at+i] == '\n' {
			return at + i
		}
		column--
	}
	return len(source)
}

// replacing returns the repair that replaces a word between two places, or nil if no other word is meant.
func replacing(start, end syntax.Position, word, meant, text string) *Repair {
	if meant == "" {
		return nil
	}
	return &Repair{
		Title: fmt.Sprintf("Replace %s with %s", word, meant),
		Edits: []Edit{{int(start.Line), int(start.Col), int(end.Line), int(end.Col), text}},
	}
}

// replaceName returns the repair of a misspelled name, or nil if no other name is meant.
func replaceName(id *syntax.Ident, meant string) *Repair {
	start, end := id.Span()
	return replacing(start, end, id.Name, meant, meant)
}

// replaceText returns the repair of a literal string, or nil if no other text is meant.
func replaceText(n syntax.Node, meant string) *Repair {
	e, ok := n.(syntax.Expr)
	word, isText := "", false
	if ok {
		word, isText = literalText(e)
	}
	if !isText {
		return nil
	}
	start, end := n.Span()
	return replacing(start, end, word, meant, strconv.Quote(meant))
}

// replaceWord is like replaceText, but returns nil if the string is not exactly the word.
func replaceWord(n syntax.Node, word, meant string) *Repair {
	if e, ok := n.(syntax.Expr); ok {
		if text, isText := literalText(e); isText && text == word {
			return replaceText(n, meant)
		}
	}
	return nil
}

// replaceInComment returns the repair of a misspelled word in a comment, or nil if no other word is meant.
func replaceInComment(c syntax.Comment, word, meant string) *Repair {
	before, _, ok := strings.Cut(c.Text, word)
	if !ok {
		return nil
	}
	start := c.Start
	start.Col += int32(len([]rune(before)))
	end := start
	end.Col += int32(len([]rune(word)))
	return replacing(start, end, word, meant, meant)
}

// withoutLoad returns the repair that removes a loaded name. If the statement loads only unused names, the repair
// removes the whole statement.
func (m *module) withoutLoad(load *syntax.LoadStmt, unused *syntax.Ident) *Repair {
	start, end := load.Span()
	title := "Remove the unused load of " + unused.Name
	if !slices.ContainsFunc(load.To, m.isUsed) {
		lines := strings.Split(m.source, "\n")
		if strings.TrimSpace(string([]rune(lines[end.Line-1])[end.Col:])) != "" {
			return nil // a comment, which may be about something else
		}
		next := int(end.Line) + 1
		isBlank := func(line int) bool { return line <= len(lines) && strings.TrimSpace(lines[line-1]) == "" }
		if start.Line > 1 && isBlank(int(start.Line)-1) && isBlank(next) {
			next++ // one blank line is enough
		}
		return &Repair{title, []Edit{{int(start.Line), 1, next, 1, ""}}}
	}
	_, from := load.Module.Span() // the end of the previous argument
	for i, id := range load.To {
		_, to := load.From[i].Span()
		to.Col++ // the quote
		if id == unused {
			return &Repair{title, []Edit{{int(from.Line), int(from.Col), int(to.Line), int(to.Col), ""}}}
		}
		from = to
	}
	return nil
}

// withVersion returns the repair that adds the version of the language after the loads.
func (m *module) withVersion() *Repair {
	const title, statement = "Add api_version = 1", "api_version = 1"
	last := 0
	for i, stmt := range m.file.Stmts {
		if _, isLoad := stmt.(*syntax.LoadStmt); !isLoad && (i > 0 || !isDocstring(stmt)) {
			break
		}
		_, end := stmt.Span()
		last = int(end.Line)
	}
	if last == 0 {
		return &Repair{title, []Edit{{1, 1, 1, 1, statement + "\n\n"}}}
	}
	end := len([]rune(strings.Split(m.source, "\n")[last-1])) + 1
	return &Repair{title, []Edit{{last, end, last, end, "\n\n" + statement}}}
}

func isDocstring(stmt syntax.Stmt) bool {
	e, ok := stmt.(*syntax.ExprStmt)
	if !ok {
		return false
	}
	_, isText := literalText(e.X)
	return isText
}
