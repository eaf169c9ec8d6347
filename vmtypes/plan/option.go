package plan

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Option is one command line option: -flag value,key=value,….
//
// See docs/decisions/0006-options-are-values.md.
type Option struct {
	// Flag with its dashes, "-device"; of a plain argument, all there is.
	Flag string
	// Value is what follows, up to the first comma: "virtio-blk-pci" or "".
	Value string
	// Properties follow the value. If List is false there are none, and Value
	// is passed on as it is, commas and all (-append, -cpu).
	Properties []Property
	// List says that value and properties are a list separated by commas.
	List bool
	// Origin is where in the VM type's source the option was made.
	Origin Origin
}

// A Property is a key and a value within an option.
type Property struct {
	// Key is empty for a descriptor that is the option's whole value (--fd 3).
	Key   string
	Value string
	// Descriptor, if set, is the name of the descriptor whose number is the
	// value; Value is empty then.
	Descriptor string
	// Queues is how many numbers the value has, with colons between them, if it is more
	// than one: those of the queues of a tap.
	Queues int
}

// Queue returns the name of the descriptor of a tap's queue, from 0; the first has the
// name of the tap.
func Queue(tap string, n int) string {
	if n == 0 {
		return tap
	}
	return tap + "/" + strconv.Itoa(n)
}

// descriptors returns the names of the property's descriptors.
func (p Property) descriptors() []string {
	if p.Descriptor == "" {
		return nil
	}
	names := make([]string, max(p.Queues, 1))
	for i := range names {
		names[i] = Queue(p.Descriptor, i)
	}
	return names
}

// Get returns the value of the property key.
func (o Option) Get(key string) (string, bool) {
	for _, p := range o.Properties {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// ID returns the name by which other options, or QMP, refer to what the option
// makes: its id or node-name, or "".
func (o Option) ID() string {
	for _, p := range o.Properties {
		if p.Key == "id" || p.Key == "node-name" {
			return p.Value
		}
	}
	return ""
}

// size is about how many bytes the words after the flag take; commas that will
// be doubled and numbers of descriptors are not counted.
func (o *Option) size() int {
	n := len(o.Value)
	for i := range o.Properties {
		n += len(o.Properties[i].Key) + len(o.Properties[i].Value) + 2
	}
	return n
}

func (o *Option) hasNUL() bool {
	if strings.IndexByte(o.Flag, 0) >= 0 || strings.IndexByte(o.Value, 0) >= 0 {
		return true
	}
	for i := range o.Properties {
		if strings.IndexByte(o.Properties[i].Value, 0) >= 0 {
			return true
		}
	}
	return false
}

// broken says that a text is cut within a character.
func (o *Option) broken() bool {
	if !utf8.ValidString(o.Flag) || !utf8.ValidString(o.Value) {
		return true
	}
	for i := range o.Properties {
		if !utf8.ValidString(o.Properties[i].Key) || !utf8.ValidString(o.Properties[i].Value) {
			return true
		}
	}
	return false
}

// Words returns the option as words of a command line, with the numbers that
// the descriptors have in the process. This is the only place where commas are
// doubled (QEMU's manual, "-device", and QemuOpts).
func (o Option) Words(number func(descriptor string) string) []string {
	if !o.List {
		if o.Value == "" {
			return []string{o.Flag}
		}
		return []string{o.Flag, o.Value}
	}
	var b strings.Builder
	b.Grow(o.size() + 8)
	writeEscaped(&b, o.Value)
	for i, p := range o.Properties {
		if i > 0 || o.Value != "" {
			b.WriteByte(',')
		}
		if p.Key != "" {
			b.WriteString(p.Key)
			b.WriteByte('=')
		}
		for k, name := range p.descriptors() {
			if k > 0 {
				b.WriteByte(':')
			}
			b.WriteString(number(name))
		}
		writeEscaped(&b, p.Value)
	}
	return []string{o.Flag, b.String()}
}

func writeEscaped(b *strings.Builder, s string) {
	if strings.IndexByte(s, ',') < 0 {
		b.WriteString(s)
		return
	}
	b.WriteString(strings.ReplaceAll(s, ",", ",,"))
}

// Descriptors returns the names of the descriptors that the process needs, in
// the order of the numbers it gets: 3 for the first.
func (p Process) Descriptors() []string {
	var names []string
	seen := map[string]bool{}
	for _, o := range p.Args {
		for _, prop := range o.Properties {
			for _, d := range prop.descriptors() {
				if !seen[d] {
					seen[d] = true
					names = append(names, d)
				}
			}
		}
	}
	return names
}

// firstDescriptor is the number of the first inherited descriptor; 0, 1 and 2
// are the standard streams.
const firstDescriptor = 3

// Argv returns the arguments, without the executable, for a process that
// inherits Descriptors from number 3 on.
func (p Process) Argv() []string {
	numbers := map[string]string{}
	for i, name := range p.Descriptors() {
		numbers[name] = strconv.Itoa(firstDescriptor + i)
	}
	argv := make([]string, 0, 2*len(p.Args))
	for _, o := range p.Args {
		argv = append(argv, o.Words(func(name string) string { return numbers[name] })...)
	}
	return argv
}
