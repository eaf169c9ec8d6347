package qemuopt

import (
	"slices"
	"strings"
)

// An Option is what is known of a flag, or of a flag with a backend.
type Option struct {
	// Flag has one dash. Backend is the value that the row is for, a driver of
	// -blockdev, or "" for the flag itself; "memory-backend-*" is for all that
	// begin so and have no row of their own.
	Flag, Backend string
	// Backed is set if the first value names a backend, which has a row of its own.
	Backed bool
	// Makes is the kind of thing that others refer to by the option's id.
	Makes Kind
	// Implied is the property that the first value is, if it has a name.
	Implied string
	// Noun is what the first value names, for messages: "block driver".
	Noun string
	// List is set if the text of the option is a list of properties.
	List bool
	// Once is set for what a machine has one of: of several, QEMU takes the last.
	Once bool
	// Own is why a VM type cannot use the flag, if it can't.
	Own string
	// Guest is what it means for a guest that the option comes, goes or changes.
	Guest Meaning
	// Text is what an option given in one piece does on the host; First what the
	// first value of a list does, if that is no backend.
	Text, First Effect
	// Known is set if the rows of Properties are all that can do something on the
	// host with a text. Without it a policy denies the option.
	Known bool
	// Inherits is set if the rows of the flag are the backend's, too.
	Inherits bool
	// Rest is what the texts of properties without a row do.
	Rest Effect
	// Key is the property that distinguishes options with the same flag.
	Key string
	// OfHost is set for a backend that the computer has, not the program.
	OfHost bool
	// Remote is set for a block driver that reaches over the network.
	Remote bool
	// Stock is set for what the stock types use: the word "stock" in the lists of
	// a policy.
	Stock bool
	// Properties are the rows of what belongs to the option.
	Properties []Property
}

// A Property is what is known of properties of an option.
type Property struct {
	// Names are one or more names, separated by blanks; "out.*" is for all properties of the object out.
	Names string
	// Host is what QEMU does on the host with the value, if it is a text: numbers
	// and switches do nothing. A policy denies properties of objects (with a dot) that have no row.
	Host Effect
	// Guest is what a change of the property means for a guest.
	Guest Meaning
	// Refers is the kind of thing whose id the value is.
	Refers Kind
}

// An Effect is what a text can do on the host.
type Effect int

// The effects.
const (
	Unknown      Effect = iota // not known: a policy denies it
	Text                       // nothing
	Alone                      // nothing, and there must be no text
	Reads                      // it names a file that is read
	Writes                     // it names a file that is written
	ReadsFolder                // it names a folder, or something in one, that is read
	WritesFolder               // it names a folder, or something in one, that is written
	Opens                      // it names a file that is written unless read-only is on
	ReadsEach                  // it names files that are read, with commas between them
	Runs                       // it is, or names, what a program does that QEMU starts
	Part                       // it is part of an address, which is judged as a whole (plan.Option.Endpoint)
)

// A Kind is what an option makes for others to refer to.
type Kind string

// The kinds, as messages call them.
const (
	DeviceID  Kind = "device"
	Object    Kind = "object"
	Chardev   Kind = "chardev"
	Netdev    Kind = "netdev"
	BlockNode Kind = "block node"
	TPMDev    Kind = "tpmdev"
	AudioDev  Kind = "audiodev"
	FSDev     Kind = "fsdev"
)

// A Meaning is what a change means for a guest; authoring/compare explains them.
type Meaning string

// The meanings that options have.
const (
	HardwareReplaced Meaning = "hardware-replaced"
	HardwareFeature  Meaning = "hardware-feature"
	Address          Meaning = "address"
	MAC              Meaning = "mac-address"
	DiskIdentity     Meaning = "disk-identity"
	BootOrder        Meaning = "boot-order"
	Kernel           Meaning = "kernel"
	Chipset          Meaning = "chipset"
	CPUModel         Meaning = "cpu-model"
	CPUTopology      Meaning = "cpu-topology"
	RAM              Meaning = "memory"
	Firmware         Meaning = "firmware"
	TPM              Meaning = "tpm"
	Identity         Meaning = "identity"
	Clock            Meaning = "clock"
	Network          Meaning = "network"
	Emulator         Meaning = "emulator"
	FailureAction    Meaning = "failure-action"
	Isolation        Meaning = "isolation"
	Viewers          Meaning = "viewers"
	HostOnly         Meaning = "host-only"
)

// Options returns all rows of options.
func Options() []Option { return slices.Clone(options) }

// Flag returns the row of a flag, spelled with one or two dashes, or nil.
func Flag(flag string) *Option {
	flag = "-" + strings.TrimLeft(flag, "-")
	for i := range options {
		if o := &options[i]; o.Flag == flag && o.Backend == "" {
			return o
		}
	}
	return nil
}

// Find returns the row of a flag with a backend: that of the backend itself, else
// of its family, else of the flag; nil if there is none of these.
func Find(flag, backend string) *Option {
	if o := Exactly(flag, backend); o != nil {
		return o
	}
	for i := range options {
		o := &options[i]
		if o.Flag == flag && matches(o.Backend, backend) {
			return o
		}
	}
	return Flag(flag)
}

// Exactly returns the row of a backend itself, or nil.
func Exactly(flag, backend string) *Option {
	for i := range options {
		if o := &options[i]; o.Flag == flag && o.Backend == backend {
			return o
		}
	}
	return nil
}

// Stock returns the flags that the stock types use, and the backends, each as its
// flag without the dash and its name: "chardev socket".
func Stock() (flags, backends []string) {
	for i := range options {
		switch o := &options[i]; {
		case !o.Stock:
		case o.Backend == "":
			flags = append(flags, o.Flag)
		default:
			backends = append(backends, o.Flag[1:]+" "+o.Backend)
		}
	}
	return flags, backends
}

// Property returns the row of a property; it has no names if there is none.
func (o *Option) Property(name string) Property {
	if o == nil {
		return Property{}
	}
	for i := range o.Properties {
		if has(o.Properties[i].Names, name) {
			return o.Properties[i]
		}
	}
	if o.Inherits {
		return Flag(o.Flag).Property(name)
	}
	return Property{Host: o.Rest}
}

// MeaningOf returns what it means for a guest that a property of an option
// changes; empty if that isn't known.
func MeaningOf(flag, backend, property string) Meaning {
	row := Find(flag, backend)
	if m := row.Property(property).Guest; m != "" {
		return m
	}
	return Flag(flag).Property(property).Guest
}

// Reference returns the kind of thing whose id a property of an option is; empty
// if the value is no id.
func Reference(flag, backend, property string) Kind { return References(flag, backend)(property) }

// References returns Reference for the properties of one option, whose rows it
// finds once.
func References(flag, backend string) func(property string) Kind {
	own, general := Find(flag, backend), Flag(flag)
	return func(property string) Kind {
		if kind := own.refers(property); kind != "" {
			return kind
		}
		return general.refers(property)
	}
}

func (o *Option) refers(name string) Kind {
	if o == nil {
		return ""
	}
	for i := range o.Properties {
		if p := &o.Properties[i]; p.Refers != "" && has(p.Names, name) {
			return p.Refers
		}
	}
	return ""
}

// has reports whether a word is in a list of words, of which "out.*" is for all that begin so.
func has(list, word string) bool {
	for list != "" {
		var first string
		first, list, _ = strings.Cut(list, " ")
		if first == word || strings.HasSuffix(first, ".*") && strings.HasPrefix(word, first[:len(first)-1]) {
			return true
		}
	}
	return false
}
