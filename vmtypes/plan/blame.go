package plan

import "strings"

// Blame returns the option that a message of the process is about, or nil:
// QEMU prefixes its complaints with the option as it was given, "-device
// foo,id=a: …".
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
	return found
}
