package plan

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Option is a command line option: -flag value,key=value,….
//
// See docs/decisions/0006-options-are-values.md.
type Option struct {
	// Flag includes the dashes: "-device". A plain argument has only this field.
	Flag string
	// Value is the first value: "virtio-blk-pci" or "".
	Value string
	// Properties follow the value. If List is false, Properties is empty, and Value is passed on unchanged,
	// including its commas (-append, -cpu).
	Properties []Property
	// List means that value and properties form a list, separated by commas.
	List bool
	// Origin is the place in the VM type's source that created the option.
	Origin Origin
}

// A Property is a key and a value within an option.
type Property struct {
	// Key is empty if a descriptor is the option's whole value (--fd 3).
	Key   string
	Value string
	// Descriptor, if set, is the name of a descriptor. The number of the descriptor becomes the value, and Value
	// is empty.
	Descriptor string
	// Queues is the number of queues of a tap, if it is greater than one. The value then contains one number per
	// queue, separated by colons.
	Queues int
}

// Queue returns the name of the descriptor of a tap's queue, counted from 0. For the first queue it is the name
// of the tap.
func Queue(tap string, n int) string {
	if n == 0 {
		return tap
	}
	return tap + "/" + strconv.Itoa(n)
}

// descriptorNames returns the names of the property's descriptors.
func (p Property) descriptorNames() []string {
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

// ID returns the name of the object that the option creates, for other options and QMP: its id or node-name, or
// "".
func (o Option) ID() string {
	for _, p := range o.Properties {
		if p.Key == "id" || p.Key == "node-name" {
			return p.Value
		}
	}
	return ""
}

// sizeInBytes returns the approximate number of bytes of the words after the flag. It ignores doubled commas and the
// numbers of descriptors.
func (o *Option) sizeInBytes() int {
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

// hasBrokenText reports whether a text contains an incomplete character.
func (o *Option) hasBrokenText() bool {
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

// Words returns the option as words of a command line. number returns the number of a descriptor in the process.
// This is the only place that doubles commas (QEMU's manual, "-device", and QemuOpts).
func (o Option) Words(number func(descriptor string) string) []string {
	if !o.List {
		if o.Value == "" {
			return []string{o.Flag}
		}
		return []string{o.Flag, o.Value}
	}
	var b strings.Builder
	b.Grow(o.sizeInBytes() + 8)
	writeEscaped(&b, o.Value)
	for i, p := range o.Properties {
		if i > 0 || o.Value != "" {
			b.WriteByte(',')
		}
		if p.Key != "" {
			b.WriteString(p.Key)
			b.WriteByte('=')
		}
		for k, name := range p.descriptorNames() {
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

// Descriptors returns the names of the descriptors that the process needs, in the order of their numbers, which
// begin with 3.
func (p Process) Descriptors() []string {
	var names []string
	seen := map[string]bool{}
	for _, o := range p.Args {
		for _, prop := range o.Properties {
			for _, d := range prop.descriptorNames() {
				if !seen[d] {
					seen[d] = true
					names = append(names, d)
				}
			}
		}
	}
	return names
}

// originOfDescriptor returns the origin of the first option that uses a descriptor.
func (p Process) originOfDescriptor(name string) Origin {
	for _, o := range p.Args {
		for _, prop := range o.Properties {
			if slices.Contains(prop.descriptorNames(), name) {
				return o.Origin
			}
		}
	}
	return nil
}

// firstDescriptor is the number of the first inherited descriptor, after the standard streams 0, 1 and 2.
const firstDescriptor = 3

// Argv returns the arguments, without the executable, for a process that inherits Descriptors from number 3 on.
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
