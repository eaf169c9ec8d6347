package launch

import (
	"errors"
	"fmt"
	"strings"

	"vmop/printable"
	"vmop/yamlfile"
)

// Cause returns why a start failed, in one sentence for people: the first fault of the configuration, an advice, or
// the last line of QEMU that says why it has ended.
func Cause(err error) string {
	var faults yamlfile.Faults
	var start *StartError
	switch {
	case errors.As(err, &faults):
		return faults[0].Text() + more(len(faults)-1)
	case !errors.As(err, &start):
		first, _, _ := strings.Cut(err.Error(), "\n")
		return printable.Line(strings.TrimSuffix(first, ":"))
	case start.Advice != "":
		return printable.Line(start.Advice)
	}
	line := lastComplaint(start.Output)
	if line == "" {
		return fmt.Sprintf("%s ended while the VM was being started: %s", start.Process, start.Exit)
	}
	return printable.Line(fmt.Sprintf("%s ended: %s", start.Process, line))
}

// more returns " (and 2 more)" for further faults.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// lastComplaint returns the last line of a program that is about what it failed at, without the name of the program
// and the option. Lines without the name continue the one before, or are of helpers.
func lastComplaint(output string) (line string) {
	named := false
	for text := range strings.Lines(output) {
		text = strings.TrimSpace(text)
		program, rest, is := strings.Cut(text, ": ")
		is = is && !strings.Contains(program, " ")
		switch {
		case text == "" || named && !is, strings.HasPrefix(rest, "warning: "):
		default:
			line, named = text, is
		}
	}
	if named {
		_, line, _ = strings.Cut(line, ": ")
	}
	if strings.HasPrefix(line, "-") { // the option that it is about; its value may have colons
		if at := strings.LastIndex(line, "}: "); at >= 0 {
			line = line[at+len("}: "):]
		} else if _, rest, is := strings.Cut(line, ": "); is {
			line = rest
		}
	}
	return line
}
