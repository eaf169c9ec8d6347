package lint

import (
	"strings"

	"go.starlark.net/syntax"

	"vmop/internal/spelling"
)

// A silence is a comment "lint: disable=RULE", which disables rules for some lines.
type silence struct {
	rules       []string
	first, last int
	comment     syntax.Comment
}

// silencesOf returns the comments of a module that disable rules. A comment at the end of a line applies to that line
// and, if a statement begins there, to the whole statement. A comment on a separate line applies to the statement
// below.
func (m *module) silencesOf() []silence {
	var list []silence
	ends := map[int]int{} // last lines of statements, by their first lines
	syntax.Walk(m.file, func(n syntax.Node) bool {
		if stmt, ok := n.(syntax.Stmt); ok {
			start, end := stmt.Span()
			ends[int(start.Line)] = max(ends[int(start.Line)], int(end.Line))
		}
		return true
	})
	lines := strings.Split(m.source, "\n")
	for _, c := range m.allComments() {
		rules := disabledRules(c.Text)
		if rules == nil {
			continue
		}
		first := int(c.Start.Line)
		if isComment(lines, first) {
			for first < len(lines) && (isComment(lines, first) || strings.TrimSpace(lines[first-1]) == "") {
				first++
			}
		}
		list = append(list, silence{rules, first, max(first, ends[first]), c})
	}
	return list
}

// isComment reports whether a line, counted from 1, contains only a comment.
func isComment(lines []string, line int) bool {
	return strings.HasPrefix(strings.TrimSpace(lines[line-1]), "#")
}

// allComments returns all comments of a module.
func (m *module) allComments() []syntax.Comment {
	var list []syntax.Comment
	seen := map[syntax.Position]bool{}
	syntax.Walk(m.file, func(n syntax.Node) bool {
		if n == nil || n.Comments() == nil {
			return true
		}
		for _, group := range [][]syntax.Comment{n.Comments().Before, n.Comments().Suffix, n.Comments().After} {
			for _, c := range group {
				if !seen[c.Start] {
					seen[c.Start] = true
					list = append(list, c)
				}
			}
		}
		return true
	})
	return list
}

// disabledRules returns the rules that a comment disables: "# lint: disable=a,b", or in buildifier's notation "#
// buildifier: disable=a". The rest of the comment is the reason.
func disabledRules(comment string) []string {
	comment = strings.TrimSpace(strings.TrimPrefix(comment, "#"))
	for _, who := range []string{"lint:", "buildifier:"} {
		rest, ok := strings.CutPrefix(comment, who)
		if !ok {
			continue
		}
		rest, ok = strings.CutPrefix(strings.TrimSpace(rest), "disable=")
		if !ok {
			return nil
		}
		names, _, _ := strings.Cut(rest, " ")
		return strings.Split(names, ",")
	}
	return nil
}

// unknownRules finds comments that disable unknown rules.
func unknownRules(m *module) {
	var known []string
	for _, r := range Rules() {
		known = append(known, r.Name)
	}
	for _, s := range m.silencesOf() {
		if strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(s.comment.Text, "#")), "buildifier:") {
			continue // buildifier has other rules
		}
		for _, name := range s.rules {
			if !isRule(name) {
				m.findings = append(m.findings, Finding{
					Rule: m.rule, File: m.name, Line: int(s.comment.Start.Line), Column: int(s.comment.Start.Col),
					EndLine:   int(s.comment.Start.Line),
					EndColumn: int(s.comment.Start.Col) + len([]rune(s.comment.Text)),
					Message:   "there is no rule " + name + didYouMean(name, known),
					Repair:    replaceInComment(s.comment, name, spelling.Nearest(name, known)),
				})
			}
		}
	}
}

// didYouMean returns " (did you mean x?)", or "".
func didYouMean(name string, known []string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}
