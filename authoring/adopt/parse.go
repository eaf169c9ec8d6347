package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A Command is a command line of QEMU.
type Command struct {
	// Program is QEMU's program; "" if the text contains only its arguments.
	Program string
	// Wanted are the options, in their order.
	Wanted []Want
	// IsPlan is set for a printed plan. It contains everything that the type produces, so a missing line means that
	// the type should not produce it.
	IsPlan bool
	// Lines are the lines of a printed plan that are not QEMU's options, without the lines of the kinds "type" and
	// "drive", which follow from the others.
	Lines []string
}

// A Want is an option of a command line.
type Want struct {
	plan.Option
	// Line is the line in the text, counted from 1.
	Line int
	// Unknown is a part that only a shell could replace, such as "$HOME"; "" if there is none.
	Unknown string
}

// Text returns the option as words of a command line.
func (w Want) Text() string { return strings.Join(w.Words(descriptorName), " ") }

func descriptorName(name string) string { return "<" + name + ">" }

// LargestText is the maximum size of a command line, in bytes.
const LargestText = 1 << 20

// Parse reads a command line. The text is a shell's command, the output of "virsh domxml-to-native", the content of
// /proc/PID/cmdline, or a plan in a form of "vmrunner vmtype render". Nothing is executed. Errors contain the line.
func Parse(text []byte) (*Command, error) {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	switch {
	case len(text) > LargestText:
		return nil, fmt.Errorf("the text has more than %d MiB", LargestText>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("the text is empty")
	case !utf8.Valid(text):
		return nil, errors.New("the text is not UTF-8; give a command line, not a program or a disk")
	}
	var words []word
	var err error
	switch s := string(text); {
	case bytes.IndexByte(text, 0) >= 0:
		for _, one := range strings.Split(strings.Trim(s, "\x00\n"), "\x00") {
			words = append(words, word{text: one, line: 1})
		}
	case strings.HasPrefix(s, "type ") && strings.Contains(s, "\nqemu "):
		return parsePlan(s)
	case isWordPerLine(s):
		for i, one := range strings.Split(strings.TrimRight(s, "\n"), "\n") {
			words = append(words, word{text: one, line: i + 1})
		}
	default:
		if words, err = readShell(s); err != nil {
			return nil, err
		}
	}
	return commandOf(words)
}

// isWordPerLine reports whether a text is the output of "render -o argv": the program, then one word per line.
func isWordPerLine(text string) bool {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return len(lines) > 1 && isProgram(lines[0]) && strings.HasPrefix(lines[1], "-") &&
		!slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, `\`) })
}

// isProgram reports whether a word is the name of a QEMU program for machines.
func isProgram(word string) bool {
	name := path.Base(word)
	return strings.HasPrefix(name, "qemu-system-") || name == "qemu-kvm" || name == "kvm" || name == "qemu"
}

// commandOf returns the command that starts QEMU. Without a program, the words are its arguments.
func commandOf(words []word) (*Command, error) {
	c := &Command{}
	at := -1
	for i, w := range words { // -accel kvm is not a program
		if !w.end && isProgram(w.text) && (i == 0 || words[i-1].end || !strings.HasPrefix(words[i-1].text, "-")) {
			at = i
			break
		}
	}
	if at < 0 {
		at = slices.IndexFunc(words, func(w word) bool { return !w.end && strings.HasPrefix(w.text, "-") }) - 1
		if at < -1 {
			return nil, errors.New("there is no command qemu-system-…, and no option that begins with -")
		}
	} else {
		c.Program = words[at].text
	}
	words = words[at+1:]
	if end := slices.IndexFunc(words, func(w word) bool { return w.end }); end >= 0 {
		words = words[:end]
	}
	for len(words) > 0 {
		words = c.addOption(words)
	}
	if len(c.Wanted) == 0 {
		return nil, errors.New("the command line has no options")
	}
	return c, nil
}

// alone are QEMU's flags without a value, for the case that something else than a flag follows.
const alone = " -enable-kvm -no-kvm -nodefaults -no-user-config -no-reboot -no-shutdown -S -daemonize -nographic " +
	"-usb -no-acpi -no-hpet -no-fd-bootchk " +
	"-snapshot -full-screen -mem-prealloc -preconfig -only-migratable -portrait " +
	"-win2k-hack -show-cursor -alt-grab -ctrl-grab -no-quit -nodefconfig -singlestep "

// addOption adds the option at the beginning of the words, and returns the words after it.
func (c *Command) addOption(words []word) []word {
	w := Want{Line: words[0].line, Unknown: words[0].unknown}
	flag := words[0].text
	words = words[1:]
	switch {
	case !strings.HasPrefix(flag, "-") || len(flag) < 2: // QEMU uses a bare word as the first disk
		w.Option = plan.Option{Flag: "-hda", Value: flag}
	default:
		if strings.HasPrefix(flag, "--") {
			flag = flag[1:]
		}
		w.Flag = flag
		if len(words) > 0 && !strings.HasPrefix(words[0].text, "-") && !strings.Contains(alone, " "+flag+" ") {
			w.Value = words[0].text
			if w.Unknown == "" {
				w.Unknown = words[0].unknown
			}
			words = words[1:]
		}
	}
	w.Option = structured(w.Option)
	c.Wanted = append(c.Wanted, w)
	return words
}

// structured returns an option with separate properties if QEMU reads its text as a list.
func structured(o plan.Option) plan.Option {
	switch o.Flag {
	case "-M":
		o.Flag = "-machine"
	case "-drive", "-nic", "-net", "-virtfs":
		value, pairs := qemuopt.Parse(o.Value)
		o.List, o.Value = true, value
		for _, p := range pairs {
			o.Properties = append(o.Properties, plan.Property{Key: p.Key, Value: p.Value})
		}
		return o
	}
	o = o.Structured()
	row := qemuopt.Flag(o.Flag)
	if !o.List || o.Value != "" || row == nil || row.Makes == "" || row.Implied == "" || o.Flag == "-blockdev" {
		return o
	}
	for i, p := range o.Properties { // type=tap,id=… is tap,id=…
		if p.Key == row.Implied {
			o.Value, o.Properties = p.Value, slices.Delete(slices.Clone(o.Properties), i, i+1)
			break
		}
	}
	return o
}

// parsePlan reads a printed plan.
func parsePlan(text string) (*Command, error) {
	c := &Command{IsPlan: true}
	isQEMU := false
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		inner, indented := strings.CutPrefix(line, "    ")
		kind, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.TrimSpace(line) == "":
		case indented && isQEMU && strings.HasPrefix(inner, "-"):
			inner, _, _ = strings.Cut(inner, "  # ") // the origin that --why adds
			flag, value, _ := strings.Cut(strings.TrimRight(inner, " "), " ")
			w := Want{Line: i + 1, Option: structured(plan.Option{Flag: flag, Value: value})}
			c.Wanted = append(c.Wanted, w)
		case indented && isQEMU:
			c.Lines = append(c.Lines, "qemu "+inner)
		case indented && len(c.Lines) > 0:
			c.Lines[len(c.Lines)-1] += "\n" + line
		case indented:
			return nil, fmt.Errorf("line %d: %q belongs to no process", i+1, inner)
		case kind == "qemu":
			isQEMU, c.Program = true, rest
		case kind == "type" || kind == "drive":
			isQEMU = false
		default:
			isQEMU = false
			c.Lines = append(c.Lines, line)
		}
	}
	if len(c.Wanted) == 0 {
		return nil, errors.New("the plan has no options of QEMU")
	}
	return c, nil
}
