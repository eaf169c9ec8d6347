package qemuopt

import (
	"slices"
	"strings"
)

// An Option describes a flag, or a flag with a backend.
type Option struct {
	// Flag has one dash. Backend is the value that the row describes, such as a driver of -blockdev, or "" for
	// the flag itself. "memory-backend-*" applies to all values with this prefix and without their own row.
	Flag, Backend string
	// Backed is set if the first value names a backend with its own row.
	Backed bool
	// Makes is the kind of object that the option creates. Other options refer to it by the option's id.
	Makes Kind
	// Implied is the name of the property that the first value stands for, if there is one.
	Implied string
	// Noun describes the first value in messages: "block driver".
	Noun string
	// List is set if the text of the option is a list of properties.
	List bool
	// Once is set if a machine has only one such option. If there are several, QEMU uses the last.
	Once bool
	// Own is the reason why a VM type cannot use the flag, if there is one.
	Own string
	// Guest is the meaning for a guest when the option is added, removed or changed.
	Guest Meaning
	// Text is the effect on the host of an option in one piece. First is the effect of the first value in a list,
	// unless it is a backend.
	Text, First Effect
	// Known is set if Properties contains every property with a text that can affect the host. If it is unset, a
	// policy denies the option.
	Known bool
	// Inherits is set if the rows of the flag also apply to the backend.
	Inherits bool
	// Rest is the effect of texts of properties without a row.
	Rest Effect
	// Key is the property that distinguishes options with the same flag.
	Key string
	// OfHost is set for a backend that depends on the computer, not on the program.
	OfHost bool
	// Remote is set for a block driver that uses the network.
	Remote bool
	// Stock is set if the stock types use the option. A policy's lists include it with the word "stock".
	Stock bool
	// Properties are the rows of the option's properties.
	Properties []Property
}

// A Property describes one or more properties of an option.
type Property struct {
	// Names contains one or more names, separated by blanks. "out.*" matches all properties of the object out.
	Names string
	// Host is the effect on the host when the value is a text; numbers and switches have no effect. A policy denies
	// properties of objects (with a dot) that have no row.
	Host Effect
	// Guest is the meaning of a change of the property for a guest.
	Guest Meaning
	// Refers is the kind of object that the value refers to by its id.
	Refers Kind
}

// An Effect is the effect that a text can have on the host.
type Effect int

// The effects.
const (
	Unknown      Effect = iota // a policy denies it
	Text                       // no effect
	Alone                      // no effect; the text must be empty
	Reads                      // names a file that is read
	Writes                     // names a file that is written
	ReadsFolder                // names a folder, or something in a folder, that is read
	WritesFolder               // names a folder, or something in a folder, that is written
	Opens                      // names a file that is written unless read-only is on
	ReadsEach                  // names files that are read, separated by commas
	Runs                       // names, or is the input of, a program that QEMU starts
	Part                       // part of an address, which is judged as a whole (plan.Option.Endpoint)
)

// A Kind is a kind of object that an option creates and other options refer to.
type Kind string

// The kinds, with their names in messages.
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

// A Meaning is the meaning of a change for a guest; authoring/compare explains the meanings.
type Meaning string

// The meanings of changes to options.
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

// rowsByFlag contains the rows of options by their flag, in their order.
var rowsByFlag = indexRows()

func indexRows() map[string][]*Option {
	rows := make(map[string][]*Option, len(options))
	for i := range options {
		rows[options[i].Flag] = append(rows[options[i].Flag], &options[i])
	}
	return rows
}

// Flag returns the row of a flag, spelled with one or two dashes, or nil.
func Flag(flag string) *Option {
	if strings.HasPrefix(flag, "--") || !strings.HasPrefix(flag, "-") {
		flag = "-" + strings.TrimLeft(flag, "-")
	}
	return Exactly(flag, "")
}

// Find returns the row for a flag with a backend: the row of the backend itself, otherwise of its family,
// otherwise of the flag. It returns nil if there is no such row.
func Find(flag, backend string) *Option {
	if o := Exactly(flag, backend); o != nil {
		return o
	}
	for _, o := range rowsByFlag[flag] {
		if matchesName(o.Backend, backend) {
			return o
		}
	}
	return Flag(flag)
}

// Exactly returns the row of the backend itself, or nil.
func Exactly(flag, backend string) *Option {
	for _, o := range rowsByFlag[flag] {
		if o.Backend == backend {
			return o
		}
	}
	return nil
}

// Stock returns the flags and the backends that the stock types use. A backend has the form "chardev socket": the
// flag without the dash, and its name.
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

// Property returns the row of a property; Names is empty if there is no row.
func (o *Option) Property(name string) Property {
	if o == nil {
		return Property{}
	}
	for i := range o.Properties {
		if hasWord(o.Properties[i].Names, name) {
			return o.Properties[i]
		}
	}
	if o.Inherits {
		return Flag(o.Flag).Property(name)
	}
	return Property{Host: o.Rest}
}

// MeaningOf returns the meaning for a guest when a property of an option changes; empty if it is unknown.
func MeaningOf(flag, backend, property string) Meaning {
	row := Find(flag, backend)
	if m := row.Property(property).Guest; m != "" {
		return m
	}
	return Flag(flag).Property(property).Guest
}

// Reference returns the kind of object that a property of an option refers to by id; empty if the value is not an
// id.
func Reference(flag, backend, property string) Kind { return References(flag, backend)(property) }

// References returns a function that does the same as Reference for the properties of one option. It looks up the
// rows only once.
func References(flag, backend string) func(property string) Kind {
	own, general := Find(flag, backend), Flag(flag)
	return func(property string) Kind {
		if kind := own.refersTo(property); kind != "" {
			return kind
		}
		return general.refersTo(property)
	}
}

func (o *Option) refersTo(name string) Kind {
	if o == nil {
		return ""
	}
	for i := range o.Properties {
		if p := &o.Properties[i]; p.Refers != "" && hasWord(p.Names, name) {
			return p.Refers
		}
	}
	return ""
}

// hasWord reports whether a list contains a word. "out.*" in the list matches all words with this prefix.
func hasWord(list, word string) bool {
	for list != "" {
		var first string
		first, list, _ = strings.Cut(list, " ")
		if first == word || strings.HasSuffix(first, ".*") && strings.HasPrefix(word, first[:len(first)-1]) {
			return true
		}
	}
	return false
}
