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
	for i := range p.Args {
		if strings.Contains(message, " "+p.Args[i].Flag+": invalid option") {
			return &p.Args[i] // QEMU ends at the first
		}
	}
	for _, c := range complaints {
		if strings.Contains(message, c.text) {
			return p.onlyOption(c.flag)
		}
	}
	return p.quotedOption(message)
}

// shortestQuote is the minimum length of a value that can identify an option in a message.
const shortestQuote = 4

// quotedOption returns the option with the longest value or id in a message of QEMU, if it is the only such option.
func (p Process) quotedOption(message string) *Option {
	var found *Option
	longest := shortestQuote - 1
	for i := range p.Args {
		o := &p.Args[i]
		for _, q := range append([]Property{{Value: o.Value}}, o.Properties...) {
			switch {
			case len(q.Value) < longest || len(q.Value) < shortestQuote || !containsWord(message, q.Value):
			case len(q.Value) > longest:
				found, longest = o, len(q.Value)
			case found != o:
				found = nil
			}
		}
	}
	return found
}

// containsWord reports whether a text contains a word that is not part of a longer word.
func containsWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start := from + i
		end := start + len(word)
		if (start == 0 || !isWordByte(text[start-1])) && (end == len(text) || !isWordByte(text[end])) {
			return true
		}
		from = start + 1
	}
}

func isWordByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
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
	{"NUMA nodes (", "-m"}, // total memory for NUMA nodes (0x…) should equal RAM size (0x…)
	{"NUMA", "-numa"},
	{"Parameter 'memory.", "-m"},
	{"cannot set up guest memory", "-m"},
	{"invalid accelerator", "-accel"},
	{"Display '", "-display"},
}
