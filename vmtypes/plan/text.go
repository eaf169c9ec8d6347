package plan

import (
	"fmt"
	"strings"

	"vmop/printable"
)

// A Line is one of a plan's text, printable.
type Line struct {
	Text string
	// Origin is where it was made; empty if that isn't known.
	Origin Origin
}

// Text returns the plan in the form that people read and goldens keep: one
// line for each option, descriptors by name, in a fixed order.
func (p *Plan) Text() string {
	var b strings.Builder
	for _, l := range p.Lines() {
		b.WriteString(l.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// originColumn is where origins start in Why, if the line is shorter.
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
	w.line("type "+p.Type, nil)
	for _, f := range p.Files {
		w.line("file "+f.To+" once from "+f.From+kindSuffix(f.Kind), f.Origin)
	}
	for _, t := range p.Taps {
		w.line("tap "+t.String(), t.Origin)
	}
	for _, l := range p.Listeners {
		w.line("listen "+l.Name+" "+l.Path, l.Origin)
	}
	for _, h := range p.Helpers {
		w.process("helper "+h.Name, h)
	}
	w.process("qemu", p.QEMU)
	for _, s := range p.Sockets {
		w.line("socket "+s.String(), nil)
	}
	for _, d := range p.Drives {
		w.line("drive "+d.String(), nil)
	}
	for _, r := range p.Rules {
		w.line("rule "+r.String(), nil)
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
		return t.Name + " bridge=" + t.Bridge + queues + t.lease()
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

// lease returns the part of the line about what the guest gets.
func (t Tap) lease() string {
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

func (w *textWriter) line(text string, origin Origin) {
	w.lines = append(w.lines, Line{printable.Line(text), origin})
}

func (w *textWriter) process(title string, p Process) {
	w.line(title+" "+p.Executable, nil)
	if p.Dir != "" {
		w.line("    in "+p.Dir, nil)
	}
	for _, v := range p.Env {
		w.line("    env "+v.Name+"="+v.Value, nil)
	}
	if len(p.CPUs) > 0 {
		w.line("    on CPUs "+CPUList(p.CPUs), nil)
	}
	for _, o := range p.Args {
		w.line("    "+strings.Join(o.Words(symbolic), " "), o.Origin)
	}
	for _, a := range p.Access {
		w.line("    access "+a.Mode+" "+a.Path, a.Origin)
	}
	if p.Exempt {
		w.line("    confines itself", nil)
	}
	if p.Role != "" {
		w.line("    role "+p.Role, nil)
	}
	if p.Ready != "" {
		w.line("    ready when "+p.Ready+" exists", nil)
	}
}

// symbolic names a descriptor instead of numbering it.
func symbolic(name string) string { return "<" + name + ">" }

// Command returns QEMU and its arguments, printable, each in a line.
func (p *Plan) Command() string {
	var b strings.Builder
	for _, word := range append([]string{p.QEMU.Executable}, p.QEMU.Argv()...) {
		b.WriteString(printable.Line(word) + "\n")
	}
	return b.String()
}

// Shell returns commands that can be pasted into a shell to see what happens
// without the runner. Descriptors appear as their numbers, explained in comments.
func (p *Plan) Shell() string {
	var b strings.Builder
	for _, f := range p.Files {
		fmt.Fprintf(&b, "[ -e %[1]s ] || cp %[2]s %[1]s\n", quote(f.To), quote(f.From))
	}
	for _, proc := range p.Processes() {
		for i, name := range proc.Descriptors() {
			b.WriteString(printable.Line(fmt.Sprintf("# %s: descriptor %d is %s, opened by the runner",
				proc.Name, firstDescriptor+i, name)) + "\n")
		}
		if proc.Dir != "" {
			fmt.Fprintf(&b, "cd %s && ", quote(proc.Dir))
		}
		for _, v := range proc.Env {
			fmt.Fprintf(&b, "%s=%s ", printable.Line(v.Name), quote(v.Value))
		}
		if len(proc.CPUs) > 0 {
			b.WriteString("taskset -c " + CPUList(proc.CPUs) + " ")
		}
		b.WriteString(quote(proc.Executable))
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

// shellWords returns one quoted line for each option.
func (p Process) shellWords() []string {
	numbers := map[string]string{}
	for i, name := range p.Descriptors() {
		numbers[name] = fmt.Sprint(firstDescriptor + i)
	}
	lines := make([]string, len(p.Args))
	for i, o := range p.Args {
		words := o.Words(func(name string) string { return numbers[name] })
		for j := range words {
			words[j] = quote(words[j])
		}
		lines[i] = strings.Join(words, " ")
	}
	return lines
}

// plainShell are the bytes that no shell interprets.
const plainShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%^"

// quote returns s as one word of a POSIX shell.
func quote(s string) string {
	switch {
	case s != "" && strings.Trim(s, plainShell) == "":
		return s
	case printable.Line(s) != s:
		return printed(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// printed returns s as a word that is printable itself: printf(1) makes s of it. A shell
// takes the line breaks at the end of what a command prints away, so they follow.
func printed(s string) string {
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
