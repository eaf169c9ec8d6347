package plan

import "strings"

// Blame returns the option that caused a message of the process, or nil. Most error messages of QEMU begin with the
// option from the command line: "-device foo,id=a: …". For some messages without the option, Blame knows the flag.
func (p Process) Blame(message string) *Option {
	words := p.Argv()
	var found *Option
	longest, at := 0, 0
	for i := range p.Args {
		n := len(p.Args[i].Words(descriptorName))
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
			return p.onlyOption(c.flag)
		}
	}
	return nil
}

// onlyOption returns the option with this flag, if there is exactly one.
func (p Process) onlyOption(flag string) *Option {
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

// complaints are error messages of QEMU (7.2 to 10) without the option.
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
