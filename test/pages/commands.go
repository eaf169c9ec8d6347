package pages

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is a call of a program on a page.
type Command struct {
	// At is the page and the line: docs/tasks/images.md:59.
	At string
	// Words are the program's name without its folder, and the arguments without quotes. Expansions such as $HOME stay.
	Words []string
	// Mention reports whether the call is in running text, where "vmrunner stop" without a VM names the verb.
	Mention bool
}

// Commands returns the commands of a page in order, and then the code spans that begin with one of the programs. The
// errors report scripts with invalid shell syntax.
func (p Page) Commands(programs ...string) ([]Command, error) {
	var all []Command
	var faults []error
	add := func(line int, script string, mention bool) {
		found, err := p.parseScript(line, script, mention)
		all, faults = append(all, found...), append(faults, err)
	}
	for _, b := range p.Blocks {
		switch b.Language {
		case Shell:
			add(b.Line, b.Text, false)
		case "console", "":
			for _, call := range b.Calls() {
				add(b.Line, call.Command(), false)
			}
		}
	}
	for _, s := range p.Spans {
		program, _, arguments := strings.Cut(s.Text, " ")
		if arguments && slices.Contains(programs, path.Base(program)) {
			add(s.Line, chooseForm(s.Text), true)
		}
	}
	return all, errors.Join(faults...)
}

// chooseForm converts a synopsis such as "stop NAME [--force] FILE…" to one command.
func chooseForm(form string) string {
	form = regexp.MustCompile(`<(\w+)>|…|\.\.\.`).ReplaceAllString(form, "$1")
	return strings.NewReplacer("[", "", "]", "").Replace(form)
}

// Statements returns the commands of a block in order, as typed. A pipe, a list and a loop each are one command.
// Comments are left out.
func (b Block) Statements() ([]string, error) {
	file, err := readScript(b.Text)
	if err != nil {
		return nil, err
	}
	all := make([]string, 0, len(file.Stmts))
	for _, s := range file.Stmts {
		all = append(all, b.Text[s.Pos().Offset():s.End().Offset()])
	}
	return all, nil
}

// readScript parses a script.
func readScript(script string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
}

// parseScript returns the commands of a script that begins at a line.
func (p Page) parseScript(line int, script string, mention bool) ([]Command, error) {
	file, err := readScript(script)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: no shell reads this: %w\n%s", p.File, line, err, script)
	}
	var all []Command
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		words := make([]string, 0, len(call.Args))
		for _, word := range call.Args {
			words = append(words, plainWord(word))
		}
		at := fmt.Sprintf("%s:%d", p.File, line+int(call.Pos().Line())-1)
		for words != nil { // "kubectl exec web-0 -- vmrunner console" contains two
			words[0] = path.Base(words[0])
			all = append(all, Command{At: at, Words: words, Mention: mention})
			end := slices.Index(words, "--")
			if end < 0 || end == len(words)-1 || words[0] != "kubectl" {
				break
			}
			words = slices.Clone(words[end+1:])
		}
		return true
	})
	return all, nil
}

// plainWord returns a word without its quotes.
func plainWord(word *syntax.Word) string {
	var b bytes.Buffer
	var write func(parts []syntax.WordPart)
	write = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				b.WriteString(part.Value)
			case *syntax.SglQuoted:
				b.WriteString(part.Value)
			case *syntax.DblQuoted:
				write(part.Parts)
			default:
				_ = syntax.NewPrinter().Print(&b, part) // writes to memory
			}
		}
	}
	write(word.Parts)
	return b.String()
}
