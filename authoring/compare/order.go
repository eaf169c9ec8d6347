package compare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// given contains the values that QEMU assigns to a device by order, for properties that the option doesn't set ("addr",
// "port", "mac"). A value is the assigned value, or the position in a series.
type given map[string]string

// gives contains the assigned values of several devices.
type gives map[*plan.Option]given

func (g gives) setProperty(o *plan.Option, property, value string) {
	if g[o] == nil {
		g[o] = given{}
	}
	g[o][property] = value
}

// series are properties that QEMU counts up for devices of a kind that do not set them. PCI slots have different rules
// (givePCISlots).
var series = []struct {
	property string
	counts   func(driver string) bool
	instead  []string // properties that replace the property
}{
	{"mac", qemuopt.IsNetworkCard, nil},
	{"port", startsWith("usb-"), nil},
	{"scsi-id", startsWith("scsi-"), nil},
	{"bus", startsWith("ide-"), []string{"unit"}},
	{"bus", isMMIO, nil},
	{"nr", matchesAny("virtserialport", "virtconsole"), nil},
	{"index", matchesAny("isa-serial"), []string{"iobase", "chardev-index"}},
	{"index", matchesAny("isa-parallel"), []string{"iobase"}},
	{"cad", startsWith("hda-"), nil},
}

// givenOut returns the values that QEMU assigns by the order of devices. It omits devices without such values.
func givenOut(options []plan.Option, machine string) gives {
	all := gives{}
	for _, s := range series {
		n := 0
		for i := range options {
			o := &options[i]
			if o.Flag != "-device" || !s.counts(o.Value) || propertyValue(o, s.property) != "" {
				continue
			}
			said := false
			for _, key := range s.instead {
				said = said || propertyValue(o, key) != ""
			}
			if !said {
				all.setProperty(o, s.property, "number "+strconv.Itoa(n)+" by order")
				n++
			}
		}
	}
	givePCISlots(options, machine, all)
	return all
}

// givePCISlots assigns PCI slots like QEMU: in the order of the command line, a device without addr receives the first
// slot that is still free in function 0 (pci_qdev_realize).
func givePCISlots(options []plan.Option, machine string, into gives) {
	taken := map[string]map[int]bool{}
	for i := range options {
		o := &options[i]
		if o.Flag != "-device" || !qemuopt.IsPCI(o.Value) {
			continue
		}
		bus := busOf(o)
		if taken[bus] == nil {
			taken[bus] = ownSlots(bus, machine)
		}
		if addr := propertyValue(o, "addr"); addr != "" {
			if slot, function, ok := parseAddress(addr); ok {
				taken[bus][slot] = taken[bus][slot] || function == 0
			}
			continue
		}
		for slot := range 32 {
			if !taken[bus][slot] {
				taken[bus][slot] = true
				into.setProperty(o, "addr", fmt.Sprintf("0x%x", slot))
				break
			}
		}
	}
}

// rootBus is this package's name for the default bus of devices.
const rootBus = "root"

func busOf(o *plan.Option) string {
	switch bus := propertyValue(o, "bus"); bus {
	case "", "pcie.0", "pci.0":
		return rootBus
	default:
		return bus
	}
}

// ownSlots returns the slots that the machine uses itself.
func ownSlots(bus, machine string) map[int]bool {
	switch {
	case bus != rootBus:
		return map[int]bool{}
	case strings.Contains(machine, "q35"):
		return map[int]bool{0: true, 31: true}
	case machine == "pc" || strings.HasPrefix(machine, "pc-"):
		return map[int]bool{0: true, 1: true}
	}
	return map[int]bool{0: true}
}

// parseAddress parses the property addr: slot, or slot.function, in hexadecimal (QEMU's set_pci_devfn).
func parseAddress(addr string) (slot, function int, ok bool) {
	first, second, found := strings.Cut(addr, ".")
	s, err := strconv.ParseUint(strings.TrimPrefix(first, "0x"), 16, 8)
	if err != nil {
		return 0, 0, false
	}
	if !found {
		return int(s), 0, true
	}
	f, err := strconv.ParseUint(strings.TrimPrefix(second, "0x"), 16, 8)
	return int(s), int(f), err == nil
}

// sameAddress reports whether two texts denote the same address.
func sameAddress(a, b string) bool {
	slot, function, ok := parseAddress(a)
	otherSlot, otherFunction, otherOK := parseAddress(b)
	return ok && otherOK && slot == otherSlot && function == otherFunction
}

// compareOrder compares the values that QEMU assigns by order. If only one plan sets the property, the change of the
// property itself has already been added.
func (c *comparison) compareOrder(p pair) {
	before, after := c.before.orders[p.before], c.after.orders[p.after]
	for _, property := range slices.Sorted(maps.Keys(before)) {
		if after[property] == "" || before[property] == after[property] {
			continue
		}
		meaning := Address
		if property == "mac" {
			meaning = MAC
		}
		c.addChange(Change{
			Subject: optionName(p.after), Property: property, Old: before[property], New: after[property],
			Meaning: meaning,
			Note:    "it has no " + property + ", so QEMU assigns one by device order",
			Place:   describeOrigin(p.after.Origin),
		})
	}
}

// isMMIO reports whether a driver is a virtio device without PCI, which receives a slot of its machine.
func isMMIO(driver string) bool {
	return strings.HasPrefix(driver, "virtio-") && strings.HasSuffix(driver, "-device")
}

func startsWith(prefix string) func(string) bool {
	return func(s string) bool { return strings.HasPrefix(s, prefix) }
}

func matchesAny(names ...string) func(string) bool {
	return func(s string) bool {
		for _, name := range names {
			if s == name {
				return true
			}
		}
		return false
	}
}

// A Placement is an address that QEMU assigns to a device by order.
type Placement struct {
	// Device is the device's option in the plan.
	Device *plan.Option
	// Property is the property that would set the address: "addr".
	Property string
	// Value is the assigned address.
	Value string
}

// Placements returns the PCI slots that QEMU assigns to devices without addr, in the order of the plan. It omits
// devices that are alone on a bus behind a port, because they have only one possible slot.
func Placements(p *plan.Plan) []Placement {
	orders := newSide(p).orders
	var list []Placement
	for i := range p.QEMU.Args {
		o := &p.QEMU.Args[i]
		if addr := orders[o]["addr"]; addr != "" && busOf(o) == rootBus {
			list = append(list, Placement{o, "addr", addr})
		}
	}
	return list
}
