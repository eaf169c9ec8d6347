package vmtype

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"vmop/authoring/vmtypestest"
	"vmop/cli"
	"vmop/spelling"
	"vmop/vmtypes"
)

// A page prints results for people.
type page struct {
	cli.Paint
	w              io.Writer
	verbose, quiet bool
	err            error // of writing
}

func (p *page) line(format string, args ...any) {
	if p.quiet || p.err != nil {
		return
	}
	_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
}

// result prints one test: its failures, and with -v that it passed.
func (p *page) result(r vmtypestest.Result) {
	failed := len(r.Failures) > 0
	switch name := cli.Printable(r.Name()); {
	case failed:
		p.line("%s %s", p.Red("✗"), p.Bold(name))
	case r.Updated:
		p.line("%s %s  the plan was written", p.Yellow("!"), p.Bold(name))
	case p.verbose:
		p.line("%s %s  %s", p.Green("✓"), name, p.Faint(milliseconds(r.Time)))
	default:
		return
	}
	for line := range strings.Lines(r.Output) {
		p.line("    %s", p.Faint("print: "+cli.Printable(strings.TrimSuffix(line, "\n"))))
	}
	for _, f := range r.Failures {
		p.text(f.Text)
		p.diff(f.Diff)
	}
	p.diff(r.Changes)
}

// text prints a failure: the message and its details.
func (p *page) text(text string) {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		line = "    " + cli.Printable(line)
		if i == 0 {
			line = p.Red(line)
		}
		p.line("%s", line)
	}
}

// diff writes the lines of a difference.
func (p *page) diff(diff string) {
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	for i, line := range lines {
		if line == "" {
			continue
		}
		sign, text := line[0], cli.Printable(line[1:])
		switch sign {
		case '-':
			other, _ := partner(lines, i+1, '+')
			text = p.Red("-" + p.emphasized(text, other))
		case '+':
			other, _ := partner(lines, i-1, '-')
			text = p.Green("+" + p.emphasized(text, other))
		case '@':
			text = p.Cyan("@" + text)
		default:
			text = " " + text
		}
		p.line("      %s", text)
	}
}

// misspelt warns of modules with a function whose name resembles launch: without launch a
// module is not a type.
func (p *page) misspelt(dir string, source vmtypes.Source, selected func(string) bool) {
	for _, name := range moduleNames(source) {
		m := vmtypes.DescribeModule(name, source.Modules[name])
		if !selected(name) || strings.HasSuffix(name, "_test.star") || defines(m, "launch") {
			continue
		}
		var similar []string
		for _, f := range m.Functions {
			if len(f.Parameters) == 2 && f.Parameters[0].Name == "vm" && f.Parameters[1].Name == "host" {
				similar = append(similar, f.Name)
			}
		}
		if near := spelling.Nearest("launch", similar); near != "" {
			text := fmt.Sprintf("note: %s has %s(vm, host) but no launch: is it misspelled?",
				filepath.Join(dir, name), near)
			p.line("%s", p.Yellow(cli.Printable(text)))
		}
	}
}

// partner returns the line i of a difference if it has the sign.
func partner(lines []string, i int, sign byte) (string, bool) {
	if i < 0 || i >= len(lines) || lines[i] == "" || lines[i][0] != sign {
		return "", false
	}
	return lines[i][1:], true
}

// emphasized underlines what is not in the other form of a line.
func (p *page) emphasized(line, other string) string {
	if other == "" || p.Underlined("x") == "x" {
		return line
	}
	there := map[string]bool{}
	for word := range strings.FieldsFuncSeq(other, separates) {
		there[word] = true
	}
	var b strings.Builder
	for line != "" {
		if end := strings.IndexFunc(line, separates); end != 0 {
			if end < 0 {
				end = len(line)
			}
			word := line[:end]
			if !there[word] {
				word = p.Underlined(word)
			}
			b.WriteString(word)
			line = line[end:]
			continue
		}
		b.WriteByte(line[0])
		line = line[1:]
	}
	return b.String()
}

// separates says what is between the words of a plan.
func separates(r rune) bool { return r == ' ' || r == ',' }

// closing is the last line.
func (p *page) closing(text string, failed bool) {
	if failed {
		p.line("%s", p.Red(text))
	} else {
		p.line("%s", p.Green(text))
	}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

// inFolder names a result's files from where the program was started.
func inFolder(dir string, r vmtypestest.Result) vmtypestest.Result {
	r.File = filepath.Join(dir, r.File)
	for i := range r.Failures {
		if f := &r.Failures[i]; f.File != "" && !strings.HasPrefix(f.File, "@") {
			f.File = filepath.Join(dir, f.File)
		}
	}
	return r
}
