package launch

import (
	"errors"
	"fmt"
	"strings"

	"vmop/internal/printable"
	"vmop/internal/yamlfile"
)

// Cause returns why a start failed, in one sentence for users: the first error in the configuration, an advice,
// or the last line with QEMU's reason for its exit.
func Cause(err error) string {
	var faults yamlfile.Faults
	var start *startError
	switch {
	case errors.As(err, &faults):
		return faults[0].Text() + andMore(len(faults)-1)
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

// andMore returns " (and 2 more)" for two further errors.
func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// lastComplaint returns a program's last error line, without the names of the program and the option. Lines
// without the program's name continue the previous line, or come from helpers.
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
	if strings.HasPrefix(line, "-") { // the option that the message is about; its value may contain colons
		if at := strings.LastIndex(line, "}: "); at >= 0 {
			line = line[at+len("}: "):]
		} else if _, rest, is := strings.Cut(line, ": "); is {
			line = rest
		}
	}
	return line
}
