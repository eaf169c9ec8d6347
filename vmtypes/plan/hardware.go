package plan

import (
	"strconv"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// hardware is the machine while QEMU creates its devices, in the order of creation. It contains only what is certain: a
// device without a known place is missing. This can't cause a wrong error: QEMU takes the first free place, so that
// further devices only take more places.
//
// See docs/decisions/0188-rules-without-qemu.md.
type hardware struct {
	*checker
	// devices are the options of devices, in QEMU's order of creation.
	devices []*Option
	// json are the devices in JSON.
	json map[*Option]bool
	// switches are the properties of the machine.
	switches map[string]string
	// presets are the properties that -global sets.
	presets map[string]bool
	// machine is set if all buses of the machine are known.
	machine bool
	// named contains the buses with a known name. kinds contains all known buses.
	named map[string]*bus
	kinds map[qemuopt.BusKind][]*bus
	// strangers are the ids of the unknown devices so far, or "" without an id. They may have buses.
	strangers map[string]bool
	// unnamed contains the kinds of the buses that QEMU names itself.
	unnamed map[qemuopt.BusKind]bool
	// hosts is set if there are several bridges to the processor, so that the default PCI bus is uncertain.
	hosts bool
	// whole contains the places outside of buses, such as positions in the boot order.
	whole bus
}

// A bus is a bus of the machine or of a controller.
type bus struct {
	kind qemuopt.BusKind
	// name is "" if QEMU chooses the name.
	name string
	// places is the number of places, or 0 if it is unknown.
	places int
	// taken contains the occupied places with their devices; nil is a built-in device of the machine.
	taken map[place]*Option
	// functions contains a bit for each occupied function of a PCI slot.
	functions [pciSlots]uint8
	// single is set if slot 0 contains a built-in device of the machine that excludes other functions.
	single bool
}

// checkHardware checks that each device has a bus, and a free place on its bus. args are the options before expansion.
func (c *checker) checkHardware(args, options []Option) {
	h := hardware{
		checker: c, switches: map[string]string{}, presets: map[string]bool{}, named: map[string]*bus{},
		kinds: map[qemuopt.BusKind][]*bus{}, json: map[*Option]bool{},
		strangers: map[string]bool{}, unnamed: map[qemuopt.BusKind]bool{},
	}
	var last []*Option // QEMU creates devices in JSON after the others
	for i := range options {
		o := &options[i]
		switch strings.TrimLeft(o.Flag, "-") {
		case "set":
			return // it changes other options
		case "global":
			h.presets[presetBy(o)] = true
		case "machine":
			for _, p := range o.Properties {
				h.switches[p.Key] = p.Value
			}
		case "usb", "usbdevice":
			h.switches["usb"] = "on"
		case "no-acpi":
			h.switches["acpi"] = "off"
		case "device":
			if isJSON(&args[i]) {
				last, h.json[o] = append(last, o), true
			} else {
				h.devices = append(h.devices, o)
			}
		default:
			if qemuopt.Flag(o.Flag) == nil {
				h.strangers[""] = true // it may add devices
			}
		}
	}
	h.devices = append(h.devices, last...)
	h.addMachine()
	for i, o := range h.devices {
		h.addDevice(i, o)
	}
}

// presetBy returns the name of the property that an option -global sets.
func presetBy(o *Option) string {
	if name, ok := o.lastValue("property"); ok {
		return name
	}
	name, _, _ := strings.Cut(o.Value, "=")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// addMachine adds the buses and devices of the machine, if they are all known.
func (h *hardware) addMachine() {
	row := qemuopt.FindMachine(h.plan.MachineType(), h.plan.GuestArchitecture())
	if row == nil {
		return
	}
	for _, b := range row.Buses {
		present, known := h.hasPart(b.If, b.Unless)
		if !known {
			h.named, h.kinds = map[string]*bus{}, map[qemuopt.BusKind][]*bus{}
			return
		}
		for n := b.First; n <= b.Last && present; n++ {
			h.addBus(&bus{kind: b.Kind, name: b.Name + strconv.Itoa(n), places: b.Places})
		}
	}
	h.machine = true
	for _, s := range row.Slots {
		if present, known := h.hasPart(s.If, s.Unless); present && known && len(h.kinds[qemuopt.PCI]) > 0 {
			root := h.kinds[qemuopt.PCI][0]
			root.single = root.single || s.Single
			root.set(pciPlace(s.Slot, s.Function), nil)
		}
	}
}

// hasPart reports whether the machine has a part that depends on switches. known is false if a switch has another
// value than on or off.
func (h *hardware) hasPart(with, unless string) (present, known bool) {
	present, known = with == "", true
	if value, given := h.switches[with]; given && with != "" {
		present, known = qemuopt.Bool(value)
	}
	for _, name := range strings.Fields(unless) {
		if value, given := h.switches[name]; given {
			on, isSwitch := qemuopt.Bool(value)
			present, known = present && on, known && isSwitch
		}
	}
	return present, known
}

func (h *hardware) addBus(b *bus) {
	h.kinds[b.kind] = append(h.kinds[b.kind], b)
	if b.name == "" {
		h.unnamed[b.kind] = true
		return
	}
	h.named[b.name] = b
}

// addDevice adds device number i, and the buses behind it.
func (h *hardware) addDevice(i int, o *Option) {
	driver := o.Backend()
	kind := qemuopt.BusOf(driver)
	h.takeOutside(o, driver)
	if b := h.findBus(i, o, kind); b != nil {
		h.takePlace(b, o)
	}
	controller := qemuopt.ControllerOf(driver)
	switch master, companion := o.lastValue("masterbus"); {
	case controller == nil && kind == "":
		h.strangers[o.ID()] = true
	case companion && kind == qemuopt.PCI: // a USB controller that adds its ports to the bus of another one
		h.findNamed(i, o, qemuopt.USB, "masterbus", master)
	case controller != nil:
		h.hosts = h.hosts || controller.Host
		for n := range controller.Buses {
			name := busName(controller, o.ID(), n)
			h.addBus(&bus{kind: controller.Kind, name: name, places: h.countPlaces(controller, o)})
		}
	}
}

// busName returns the name of a controller's bus; "" if QEMU chooses it.
func busName(controller *qemuopt.Controller, id string, n int) string {
	if id == "" || controller.Bridge {
		return id
	}
	return id + "." + strconv.Itoa(n)
}

// countPlaces returns the number of places on each bus of a controller, or 0 if it is unknown.
func (h *hardware) countPlaces(controller *qemuopt.Controller, o *Option) int {
	if controller.Counts == "" {
		return controller.Places
	}
	most := 0
	for _, key := range strings.Fields(controller.Counts) {
		count := controller.Places
		if text, given := o.lastValue(key); given {
			n, ok := qemuopt.Number(text)
			if !ok || n < 0 || n > maxPlaces {
				return 0
			}
			count = int(n)
		}
		if h.presets[key] {
			return 0
		}
		most = max(most, count)
	}
	return most
}

// findBus returns the bus of device number i, or nil if it is unknown or missing.
func (h *hardware) findBus(i int, o *Option, kind qemuopt.BusKind) *bus {
	name, given := o.lastValue("bus")
	if kind == "" || kind == qemuopt.OtherBus || h.presets["bus"] {
		return nil
	}
	if given {
		return h.findNamed(i, o, kind, "bus", name)
	}
	candidates := h.kinds[kind]
	switch {
	case !h.machine || len(h.strangers) > 0 || h.hosts:
		return nil
	case len(candidates) == 0:
		h.addFault(o.Origin, "%s: the device needs %s, and %s", shortName(o), noun(kind), h.withoutBus(kind))
		return nil
	case kind == qemuopt.PCI || len(candidates) == 1 && kind != qemuopt.VirtioMMIO:
		return candidates[0]
	}
	return nil
}

// withoutBus returns the reason why there is no bus of a kind, with a remedy.
func (h *hardware) withoutBus(kind qemuopt.BusKind) string {
	has := "the machine " + h.plan.MachineType() + " has none"
	switch {
	case kind == qemuopt.PCI && h.plan.MachineType() == "microvm":
		return has + "; set pcie=on for the machine, or use a virtio device with -device at the end of its name"
	case kind == qemuopt.PCI, kind == qemuopt.ISA:
		return has
	case kind == qemuopt.VirtioMMIO:
		return has + "; use the device with -pci at the end of its name"
	case kind == qemuopt.USB:
		return has + "; add a controller before it, such as -device qemu-xhci"
	}
	return "no option before it makes one; add a controller before it"
}

// findNamed returns the bus that a property names, or nil if it is unknown or missing.
func (h *hardware) findNamed(i int, o *Option, kind qemuopt.BusKind, key, name string) *bus {
	b := h.named[name]
	switch {
	case b == nil && h.machine && !h.mayExist(name):
		h.addFault(o.Origin, "%s: %s=%s, but %s", shortName(o), key, name, h.whyMissing(i, kind, name))
	case b != nil && b.kind != kind:
		h.addFault(o.Origin, "%s: %s=%s is %s, but the device needs %s", shortName(o), key, name, noun(b.kind),
			noun(kind))
		return nil
	}
	return b
}

// mayExist reports whether a bus could have a name that the known buses don't have.
func (h *hardware) mayExist(name string) bool {
	prefix := name[:max(strings.LastIndexByte(name, '.'), 0)]
	if name == "" || strings.Contains(name, "/") || h.strangers[""] || h.strangers[name] || h.strangers[prefix] {
		return true
	}
	for kind := range h.unnamed { // QEMU names such a bus after its kind
		auto := strings.ToLower(string(kind))
		if prefix == auto || prefix == auto+"e" {
			return true
		}
	}
	return false
}

// whyMissing returns the reason why device number i can't find a bus, with a remedy.
func (h *hardware) whyMissing(i int, kind qemuopt.BusKind, name string) string {
	for _, o := range h.devices[i+1:] {
		if len(h.faults) >= maxFaults {
			break
		}
		controller := qemuopt.ControllerOf(o.Backend())
		for n := 0; controller != nil && n < controller.Buses; n++ {
			if busName(controller, o.ID(), n) == name {
				return "QEMU creates devices in their order, and " + nameWithPlace(o) +
					" makes the bus later; move it up"
			}
		}
	}
	var known []string
	for _, b := range h.kinds[kind][:min(len(h.kinds[kind]), maxFaults)] {
		known = append(known, b.name)
	}
	return "there is no bus with that name" + h.didYouMean(name, known)
}

// noun returns the name of a kind of bus for messages, with its article.
func noun(kind qemuopt.BusKind) string {
	switch kind {
	case qemuopt.ISA, qemuopt.IDE:
		return "an " + string(kind) + " bus"
	case qemuopt.USB:
		return "a USB bus"
	case qemuopt.VirtioMMIO:
		return "a virtio-mmio bus"
	case qemuopt.VirtioSerial:
		return "a virtio serial bus"
	}
	return "a " + string(kind) + " bus"
}

// shortName returns the short form of an option for messages: "-device qemu-xhci,id=usb".
func shortName(o *Option) string {
	name := strings.TrimSuffix(o.Flag+" "+o.Backend(), " ")
	if id := o.ID(); id != "" {
		name += ",id=" + id
	}
	return name
}

// nameWithPlace returns the short form of an option, with its origin, for a message about another option.
func nameWithPlace(o *Option) string {
	switch {
	case o == nil:
		return "a device of the machine"
	case len(o.Origin) == 0:
		return shortName(o)
	}
	return shortName(o) + " (made at " + o.Origin.String() + ")"
}
