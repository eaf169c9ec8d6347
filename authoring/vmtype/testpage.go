package vmtype

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/internal/spelling"
	"vmop/vmtypes"
)

// A page prints results for people.
type page struct {
	cli.Paint
	w              io.Writer
	verbose, quiet bool
	err            error // of writing to w
}

func (p *page) printLine(format string, args ...any) {
	if p.quiet || p.err != nil {
		return
	}
	_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
}

// printResult prints the failures of a test. With -v it also prints passed tests.
func (p *page) printResult(r vmtypestest.Result) {
	failed := len(r.Failures) > 0
	switch name := cli.Printable(r.Name()); {
	case failed:
		p.printLine("%s %s", p.Red("✗"), p.Bold(name))
	case r.Updated:
		p.printLine("%s %s  the plan was written", p.Yellow("!"), p.Bold(name))
	case p.verbose && r.Cached:
		p.printLine("%s %s  %s", p.Green("✓"), name, p.Faint("cached"))
	case p.verbose:
		p.printLine("%s %s  %s", p.Green("✓"), name, p.Faint(formatMilliseconds(r.Time)))
	default:
		return
	}
	if r.Note != "" {
		p.printLine("    %s", p.Faint(r.Note))
	}
	for line := range strings.Lines(r.Output) {
		p.printLine("    %s", p.Faint("print: "+cli.Printable(strings.TrimSuffix(line, "\n"))))
	}
	for _, f := range r.Failures {
		p.printText(f.Text)
		p.printDiff(f.Diff)
	}
	p.printDiff(r.Changes)
}

// printText prints a failure: the message and its details.
func (p *page) printText(text string) {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		line = "    " + cli.Printable(line)
		if i == 0 {
			line = p.Red(line)
		}
		p.printLine("%s", line)
	}
}

// printDiff prints the lines of a difference.
func (p *page) printDiff(diff string) {
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	for i, line := range lines {
		if line == "" {
			continue
		}
		sign, text := line[0], cli.Printable(line[1:])
		switch sign {
		case '-':
			other, _ := partnerLine(lines, i+1, '+')
			text = p.Red("-" + p.emphasizeDifference(text, other))
		case '+':
			other, _ := partnerLine(lines, i-1, '-')
			text = p.Green("+" + p.emphasizeDifference(text, other))
		case '@':
			text = p.Cyan("@" + text)
		default:
			text = " " + text
		}
		p.printLine("      %s", text)
	}
}

// warnMisspelt warns about modules with a function that resembles launch. Without launch, a module is not a type.
func (p *page) warnMisspelt(dir string, source vmtypes.Source, selected func(string) bool) {
	for _, name := range moduleNames(source) {
		m := vmtypes.DescribeModule(name, source.Modules[name])
		if !selected(name) || strings.HasSuffix(name, "_test.star") || definesGlobal(m, "launch") {
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
			p.printLine("%s", p.Yellow(cli.Printable(text)))
		}
	}
}

// partnerLine returns line i of a difference if it has this sign.
func partnerLine(lines []string, i int, sign byte) (string, bool) {
	if i < 0 || i >= len(lines) || lines[i] == "" || lines[i][0] != sign {
		return "", false
	}
	return lines[i][1:], true
}

// emphasizeDifference underlines the words that the other version of the line lacks.
func (p *page) emphasizeDifference(line, other string) string {
	if other == "" || p.Underlined("x") == "x" {
		return line
	}
	there := map[string]bool{}
	for word := range strings.FieldsFuncSeq(other, separatesWords) {
		there[word] = true
	}
	var b strings.Builder
	for line != "" {
		if end := strings.IndexFunc(line, separatesWords); end != 0 {
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

// separatesWords reports whether a character separates words in a plan.
func separatesWords(r rune) bool { return r == ' ' || r == ',' }

// printTotal prints the last line.
func (p *page) printTotal(text string, failed bool) {
	if failed {
		p.printLine("%s", p.Red(text))
	} else {
		p.printLine("%s", p.Green(text))
	}
}

func formatMilliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

// inFolder changes the files in a result to paths relative to the current directory.
func inFolder(dir string, r vmtypestest.Result) vmtypestest.Result {
	r.File = filepath.Join(dir, r.File)
	for i := range r.Failures {
		if f := &r.Failures[i]; f.File != "" && !strings.HasPrefix(f.File, "@") {
			f.File = filepath.Join(dir, f.File)
		}
	}
	return r
}
