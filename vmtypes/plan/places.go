package plan

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// Limits of addresses on PCI and SCSI buses (hw/core/qdev-properties-system.c, hw/scsi/virtio-scsi.c).
const (
	pciSlots     = 32
	pciFunctions = 8
	mostTargets  = 255
	// The maximum number of places that a controller's property can set; virtio serial has 511 ports.
	maxPlaces = 512
)

// A place can hold one device.
type place struct {
	// property is the name of the property that selects the place. text is its value if it is not a number.
	property, text string
	// first and second are the numbers of the place, such as the slot and the function.
	first, second, third int
}

// String returns the place in the notation of the properties.
func (p place) String() string {
	switch p.property {
	case "addr":
		text := "addr=0x" + strconv.FormatInt(int64(p.first), 16)
		if p.second > 0 {
			text += ".0x" + strconv.FormatInt(int64(p.second), 16)
		}
		return text
	case "chassis":
		return fmt.Sprintf("chassis=%d,slot=%d", p.first, p.second)
	case "scsi-id":
		return fmt.Sprintf("channel=%d,scsi-id=%d,lun=%d", p.third, p.first, p.second)
	case "":
		return p.text
	}
	if p.text != "" {
		return p.property + "=" + p.text
	}
	return p.property + "=" + strconv.Itoa(p.first)
}

// takeOutside takes the device's places outside of buses.
func (h *hardware) takeOutside(o *Option, driver string) {
	if text, given := o.lastValue("bootindex"); given {
		if n, ok := qemuopt.Number(text); ok && n >= 0 {
			at := place{property: "bootindex", first: int(n)}
			h.occupyPlace(&h.whole, at, o, "give each device its own position in the boot order")
		}
	}
	if name, given := o.lastValue("name"); given && qemuopt.BusOf(driver) == qemuopt.VirtioSerial {
		h.occupyPlace(&h.whole, place{property: "name", text: name}, o, "each port needs its own name")
	}
	if controller := qemuopt.ControllerOf(driver); controller != nil && controller.Slotted {
		chassis, certain := h.number(o, "chassis", 0)
		slot, alsoCertain := h.number(o, "slot", 0)
		if certain && alsoCertain {
			at := place{property: "chassis", first: chassis, second: slot}
			h.occupyPlace(&h.whole, at, o, "give each port its own chassis")
		}
	}
}

// number returns the value of a property, or fallback if the property is missing. certain is false if the value is
// unknown.
func (h *hardware) number(o *Option, key string, fallback int) (n int, certain bool) {
	text, given := o.lastValue(key)
	if !given {
		return fallback, !h.presets[key]
	}
	value, ok := qemuopt.Number(text)
	return int(value), ok
}

// occupyPlace takes a place on a bus for a device, or reports the device that already occupies it.
func (h *hardware) occupyPlace(b *bus, at place, o *Option, remedy string) {
	other, used := b.taken[at]
	if used {
		owner := nameWithPlace(other)
		if other != nil && b != &h.whole && at.property != "" {
			if _, fixed := other.Get(at.property); !fixed {
				owner += ", which takes the first free place"
			}
		}
		h.addFault(o.Origin, "%s: %s%s is already taken by %s; %s", shortName(o), at, onBus(b), owner, remedy)
		return
	}
	b.set(at, o)
}

// set records the device at a place; nil is a built-in device of the machine.
func (b *bus) set(at place, o *Option) {
	if b.taken == nil {
		b.taken = map[place]*Option{}
	}
	b.taken[at] = o
	if at.property == "addr" {
		b.functions[at.first] |= 1 << at.second
	}
}

// takePlace takes the device's place on a bus. Without a property for the place, it takes QEMU's first free place.
func (h *hardware) takePlace(b *bus, o *Option) {
	switch b.kind {
	case qemuopt.PCI:
		h.takeSlot(b, o)
	case qemuopt.IDE:
		h.takeUnit(b, o)
	case qemuopt.SCSI:
		h.takeTarget(b, o)
	case qemuopt.USB:
		h.takeUSBPort(b, o)
	case qemuopt.VirtioSerial:
		h.takeSerialPort(b, o)
	case qemuopt.VirtioMMIO:
		h.occupyPlace(b, place{text: "the only place"}, o, "use another transport")
	}
}

// onBus describes a bus after a place in a message.
func onBus(b *bus) string {
	if b.name == "" {
		return ""
	}
	return " of the bus " + b.name
}

// pciPlace returns the place of a PCI device.
func pciPlace(slot, function int) place {
	return place{property: "addr", first: slot, second: function}
}

// takeSlot takes a device's place on a PCI bus (hw/pci/pci.c, do_pci_register_device and pci_init_multifunction).
func (h *hardware) takeSlot(b *bus, o *Option) {
	text, given := o.lastValue("addr")
	switch {
	case h.presets["addr"] || given && h.json[o]:
		return // a number in JSON has another meaning
	case !given:
		if !b.takeFree(pciPlace(0, 0), 0, pciSlots-1, o) {
			h.addFault(o.Origin, "%s: all %d slots%s are taken", shortName(o), pciSlots, onBus(b))
		}
		return
	}
	slot, function, ok := parseSlot(text)
	if !ok {
		h.addFault(o.Origin, "%s: addr=%s must be a slot, 0x0 to 0x1f, and perhaps a function, .0x0 to .0x7: 0x1c.0x1",
			shortName(o), text)
		return
	}
	h.occupyPlace(b, pciPlace(slot, function), o, "use another addr")
	if h.presets["multifunction"] {
		return
	}
	if function > 0 {
		first, used := b.taken[pciPlace(slot, 0)]
		if used && (first == nil && b.single && slot == 0 || first != nil && isSingle(first)) {
			h.addFault(o.Origin, "%s: addr=%s is another function of %s, which has no multifunction=on; add it there",
				shortName(o), text, nameWithPlace(first))
		}
		return
	}
	if others := b.functions[slot] &^ 1; others != 0 && isSingle(o) {
		second := b.taken[pciPlace(slot, bits.TrailingZeros8(others))]
		h.addFault(o.Origin, "%s: addr=%s without multifunction=on, but %s is another function of the slot; add "+
			"multifunction=on", shortName(o), text, nameWithPlace(second))
	}
}

// isSingle reports whether a device with a fixed place allows no other functions in its slot.
func isSingle(o *Option) bool {
	_, fixed := o.Get("addr")
	text, _ := o.lastValue("multifunction")
	on, known := qemuopt.Bool(text)
	return fixed && (text == "" || known && !on)
}

// parseSlot reads the property addr in the same way as QEMU (hw/core/qdev-properties-system.c, set_pci_devfn).
func parseSlot(text string) (slot, function int, ok bool) {
	first, second, both := strings.Cut(text, ".")
	if !both {
		second = "0"
	}
	s, isSlot := parseHex(first)
	f, isFunction := parseHex(second)
	return s, f, isSlot && isFunction && s < pciSlots && f < pciFunctions
}

// parseHex reads a number in the same way as C's scanf with %x.
func parseHex(text string) (n int, ok bool) {
	text = strings.TrimPrefix(strings.TrimLeft(text, " \t\n\v\f\r"), "+")
	value, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 31)
	return int(value), err == nil
}

// takeUnit takes a device's place on an IDE bus (hw/ide/qdev.c, ide_qdev_realize).
func (h *hardware) takeUnit(b *bus, o *Option) {
	unit, certain := h.number(o, "unit", 0)
	if _, given := o.Get("unit"); !given && b.taken[place{property: "unit"}] != nil {
		unit = 1
	}
	switch {
	case !certain || unit < 0:
	case b.places > 0 && unit >= b.places:
		owner := ""
		if other := b.taken[place{property: "unit"}]; other != nil && b.places == 1 {
			owner = ", taken by " + nameWithPlace(other)
		}
		h.addFault(o.Origin, "%s: unit=%d, but the last unit%s is %d%s; use another bus", shortName(o), unit, onBus(b),
			b.places-1, owner)
	default:
		h.occupyPlace(b, place{property: "unit", first: unit}, o, "use another unit or bus")
	}
}

// takeTarget takes a device's place on a SCSI bus (hw/scsi/scsi-bus.c, scsi_bus_check_address and scsi_qdev_realize).
func (h *hardware) takeTarget(b *bus, o *Option) {
	channel, certainChannel := h.number(o, "channel", 0)
	target, certainTarget := h.number(o, "scsi-id", -1)
	lun, certainLUN := h.number(o, "lun", -1)
	if !certainChannel || !certainTarget || !certainLUN {
		return
	}
	at := place{property: "scsi-id", first: target, second: lun, third: channel}
	switch {
	case target < 0:
		at.second = max(lun, 0)
		b.takeFree(at, 0, mostTargets, o)
	case lun >= 0:
		h.occupyPlace(b, at, o, "use another scsi-id or lun")
	}
}

// takeUSBPort takes a device's port on a USB bus (hw/usb/bus.c, usb_claim_port). The places of a hub have a dot.
func (h *hardware) takeUSBPort(b *bus, o *Option) {
	text, given := o.lastValue("port")
	if given {
		if n, ok := qemuopt.Number(text); ok && b.places > 0 && (n < 1 || n > int64(b.places)) {
			h.addFault(o.Origin, "%s: port=%s, but the ports%s are 1 to %d", shortName(o), text, onBus(b), b.places)
			return
		}
		h.occupyPlace(b, place{property: "port", text: text}, o, "use another port")
		return
	}
	for n := 1; n <= b.places && !h.presets["port"]; n++ {
		at := place{property: "port", text: strconv.Itoa(n)}
		if _, used := b.taken[at]; !used {
			b.set(at, o)
			return
		}
	}
}

// takeSerialPort takes a device's port on a virtio serial bus (hw/char/virtio-serial-bus.c,
// virtser_port_device_realize). Port 0 is for consoles.
func (h *hardware) takeSerialPort(b *bus, o *Option) {
	port, certain := h.number(o, "nr", -1)
	_, given := o.Get("nr")
	switch {
	case !certain || given && port < 0:
	case port == 0 && o.Backend() == "virtserialport":
		h.addFault(o.Origin, "%s: nr=0 is only for a virtconsole; use a number from 1", shortName(o))
	case b.places > 0 && port >= b.places:
		h.addFault(o.Origin, "%s: nr=%d, but the last port%s is %d", shortName(o), port, onBus(b), b.places-1)
	case given:
		h.occupyPlace(b, place{property: "nr", first: port}, o, "use another nr")
	case o.Backend() == "virtconsole":
		b.takeFree(place{property: "nr"}, 0, b.places-1, o)
	default:
		b.takeFree(place{property: "nr"}, 1, b.places-1, o)
	}
}

// takeFree takes the first free place with a first number from lowest to highest, and reports whether it found a place.
func (b *bus) takeFree(at place, lowest, highest int, o *Option) bool {
	for at.first = lowest; at.first <= highest; at.first++ {
		if _, used := b.taken[at]; !used {
			b.set(at, o)
			return true
		}
	}
	return false
}
