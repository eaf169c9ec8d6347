package plan

import "strings"

// Blame returns the option that a message of the process is about, or nil. Most
// of QEMU's complaints begin with the option as it was given, "-device foo,id=a:
// …"; of others it is known which option they are about.
func (p Process) Blame(message string) *Option {
	words := p.Argv()
	var found *Option
	longest, at := 0, 0
	for i := range p.Args {
		n := len(p.Args[i].Words(symbolic))
		text := strings.Join(words[at:at+n], " ")
		at += n
		if len(text) > longest && strings.Contains(message, text+":") {
			found, longest = &p.Args[i], len(text)
		}
	}
	if found != nil {
		return found
	}
	for _, c := range complaints {
		if strings.Contains(message, c.text) {
			return p.only(c.flag)
		}
	}
	return nil
}

// only returns the option with this flag if there is just one.
func (p Process) only(flag string) *Option {
	var found *Option
	for i := range p.Args {
		switch {
		case p.Args[i].Flag != flag:
		case found != nil:
			return nil
		default:
			found = &p.Args[i]
		}
	}
	return found
}

// complaints are what QEMU (7.2 to 10) says without naming the option.
var complaints = []struct{ text, flag string }{
	{"unsupported machine type", "-machine"},
	{"-machine.", "-machine"}, // Property 'pc-q35-7.2-machine.foo' not found
	{"CPU model", "-cpu"},
	{"-cpu.", "-cpu"}, // Property 'max-x86_64-cpu.foo' not found
	{"CPU topology", "-smp"},
	{"Invalid SMP CPUs", "-smp"},
	{"invalid datetime format", "-rtc"},
	{"Parameter 'boot.", "-boot"},
	{"Parameter 'smp.", "-smp"},
	{"Parameter 'memory.", "-m"},
	{"cannot set up guest memory", "-m"},
	{"invalid accelerator", "-accel"},
	{"Display '", "-display"},
}
