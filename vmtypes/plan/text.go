package plan

import (
	"fmt"
	"strings"

	"vmop/internal/printable"
)

// A Line is a printable line of a plan's text.
type Line struct {
	Text string
	// Origin is the place that created it; empty if it is unknown.
	Origin Origin
}

// Text returns the plan in the form for people and golden files: one line per option, with the names of
// descriptors, in a fixed order.
func (p *Plan) Text() string {
	var b strings.Builder
	for _, l := range p.Lines() {
		b.WriteString(l.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// originColumn is the column of origins in Why, if the line is shorter.
const originColumn = 72

// Why returns Text with the origin after each option.
func (p *Plan) Why() string {
	var b strings.Builder
	for _, l := range p.Lines() {
		b.WriteString(l.Text)
		if len(l.Origin) > 0 {
			if n := originColumn - len(l.Text); n > 0 {
				b.WriteString(strings.Repeat(" ", n))
			}
			b.WriteString("  # " + printable.Line(l.Origin.String()))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Lines returns the lines of Text.
func (p *Plan) Lines() []Line {
	w := &textWriter{}
	w.writeLine("type "+p.Type, nil)
	for _, f := range p.Files {
		w.writeLine("file "+f.To+" once from "+f.From+kindSuffix(f.Kind), f.Origin)
	}
	for _, t := range p.Taps {
		w.writeLine("tap "+t.String(), t.Origin)
	}
	for _, l := range p.Listeners {
		w.writeLine("listen "+l.Name+" "+l.Path, l.Origin)
	}
	for _, h := range p.Helpers {
		w.writeProcess("helper "+h.Name, h)
	}
	w.writeProcess("qemu", p.QEMU)
	for _, s := range p.Sockets {
		w.writeLine("socket "+s.String(), nil)
	}
	for _, d := range p.Drives {
		w.writeLine("drive "+d.String(), nil)
	}
	for i, r := range p.Rules {
		w.writeLine("rule "+r.String(), p.RuleOrigin(i))
	}
	return w.lines
}

func kindSuffix(kind string) string {
	if kind == "" {
		return ""
	}
	return " kind " + kind
}

// String returns the tap's line in the text form.
func (t Tap) String() string {
	queues := ""
	if t.Queues > 1 {
		queues = fmt.Sprintf(" queues=%d", t.Queues)
	}
	if t.Subnet == "" {
		return t.Name + " bridge=" + t.Bridge + queues + t.leaseText()
	}
	s := t.Name + " masquerade=" + t.Subnet + " mac=" + t.MAC + queues
	if t.Hostname != "" {
		s += " hostname=" + t.Hostname
	}
	for _, f := range t.Forwards {
		s += fmt.Sprintf(" forward=%s:%s:%d-%d", f.Protocol, f.Address, f.Host, f.Guest)
	}
	if t.AllPorts != nil {
		s += " all-ports"
		for _, port := range t.AllPorts.Keep {
			s += fmt.Sprintf(" except=%d", port)
		}
	}
	return s
}

// leaseText returns the part of the line about the guest's lease and filter.
func (t Tap) leaseText() string {
	l := t.Lease
	if l == nil && t.Filter {
		return " mac=" + t.MAC + " filter"
	} else if l == nil {
		return ""
	}
	s := " lease=" + l.Address + " mac=" + t.MAC
	for _, p := range []struct{ key, value string }{
		{"hostname", t.Hostname},
		{"gateway", l.Gateway},
		{"nameservers", strings.Join(l.Nameservers, ",")},
		{"search", strings.Join(l.Search, ",")},
	} {
		if p.value != "" {
			s += " " + p.key + "=" + p.value
		}
	}
	for _, r := range l.Routes {
		s += " route=" + r.To + "-" + r.Via
	}
	if t.Filter {
		s += " filter"
	}
	return s
}

// String returns the socket's line in the text form.
func (s Socket) String() string {
	if s.Port == "" {
		return s.Role + " " + s.Path
	}
	return s.Role + " " + s.Path + " port=" + s.Port
}

// String returns the drive's line in the text form.
func (d Drive) String() string {
	text := "-"
	if d.Index != NotInConfiguration {
		text = fmt.Sprintf("vm.drives[%d]", d.Index)
	}
	if d.Device != "" {
		text += " device=" + d.Device
	}
	if len(d.Nodes) > 0 {
		text += " nodes=" + strings.Join(d.Nodes, ",")
	}
	if d.File != "" {
		text += " file=" + d.File
	}
	return text
}

type textWriter struct{ lines []Line }

func (w *textWriter) writeLine(text string, origin Origin) {
	w.lines = append(w.lines, Line{printable.Line(text), origin})
}

func (w *textWriter) writeProcess(title string, p Process) {
	w.writeLine(title+" "+p.Executable, nil)
	if p.Dir != "" {
		w.writeLine("    in "+p.Dir, nil)
	}
	for _, v := range p.Env {
		w.writeLine("    env "+v.Name+"="+v.Value, nil)
	}
	if len(p.CPUs) > 0 {
		w.writeLine("    on CPUs "+CPUList(p.CPUs), nil)
	}
	for _, o := range p.Args {
		w.writeLine("    "+o.Text(), o.Origin)
	}
	for _, a := range p.Access {
		w.writeLine("    access "+a.Mode+" "+a.Path, a.Origin)
	}
	if p.Exempt {
		w.writeLine("    confines itself", nil)
	}
	if p.Role != "" {
		w.writeLine("    role "+p.Role, nil)
	}
	if p.Ready != "" {
		w.writeLine("    ready when "+p.Ready+" exists", nil)
	}
}

// Text returns the option as in the text form, printable.
func (o Option) Text() string { return printable.Line(strings.Join(o.Words(descriptorName), " ")) }

// descriptorName returns a name for a descriptor instead of its number.
func descriptorName(name string) string { return "<" + name + ">" }

// Command returns QEMU and its arguments, printable, one per line.
func (p *Plan) Command() string {
	var b strings.Builder
	for _, word := range append([]string{p.QEMU.Executable}, p.QEMU.Argv()...) {
		b.WriteString(printable.Line(word) + "\n")
	}
	return b.String()
}

// Shell returns commands to paste into a shell, to see the effect without the runner. Descriptors appear as
// numbers; comments explain them.
func (p *Plan) Shell() string {
	var b strings.Builder
	for _, f := range p.Files {
		fmt.Fprintf(&b, "[ -e %[1]s ] || cp %[2]s %[1]s\n", quoteWord(f.To), quoteWord(f.From))
	}
	for _, proc := range p.Processes() {
		for i, name := range proc.Descriptors() {
			b.WriteString(printable.Line(fmt.Sprintf("# %s: descriptor %d is %s, opened by the runner",
				proc.Name, firstDescriptor+i, name)) + "\n")
		}
		if proc.Dir != "" {
			fmt.Fprintf(&b, "cd %s && ", quoteWord(proc.Dir))
		}
		for _, v := range proc.Env {
			fmt.Fprintf(&b, "%s=%s ", printable.Line(v.Name), quoteWord(v.Value))
		}
		if len(proc.CPUs) > 0 {
			b.WriteString("taskset -c " + CPUList(proc.CPUs) + " ")
		}
		b.WriteString(quoteWord(proc.Executable))
		words := proc.shellWords()
		for _, w := range words {
			b.WriteString(" \\\n    " + w)
		}
		if proc.Name != p.QEMU.Name {
			b.WriteString(" &")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// shellWords returns one line with quoted words per option.
func (p Process) shellWords() []string {
	numbers := map[string]string{}
	for i, name := range p.Descriptors() {
		numbers[name] = fmt.Sprint(firstDescriptor + i)
	}
	lines := make([]string, len(p.Args))
	for i, o := range p.Args {
		words := o.Words(func(name string) string { return numbers[name] })
		for j := range words {
			words[j] = quoteWord(words[j])
		}
		lines[i] = strings.Join(words, " ")
	}
	return lines
}

// plainShell contains the bytes that no shell interprets.
const plainShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%^"

// quoteWord returns s as one word of a POSIX shell.
func quoteWord(s string) string {
	switch {
	case s != "" && strings.Trim(s, plainShell) == "":
		return s
	case printable.Line(s) != s:
		return printableWord(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// printableWord returns a printable word of a shell that evaluates to s. It uses printf(1). A shell removes line breaks
// at the end of a command's output, so printableWord appends them to the word.
func printableWord(s string) string {
	text := strings.TrimRight(s, "\n")
	var b strings.Builder
	for _, c := range []byte(text) {
		if c != '%' && strings.IndexByte(plainShell+" ", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	word := `"$(printf '` + b.String() + `')"`
	if text != s {
		word += "'" + s[len(text):] + "'"
	}
	return word
}
