package adopt

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A Rest is something that the proposal does not contain.
type Rest struct {
	// Line is the line of the command line, counted from 1; 0 if the plan contains something that the command line
	// lacks.
	Line int
	// Option is the option, or the property of an option, as text.
	Option string
	// Reason says why, and what to do instead.
	Reason string
}

// A wish is the state of a command line on the way to a proposal.
type wish struct {
	wants []Want
	rest  []Rest
	// exact means that the plan must not contain anything else.
	exact bool
	// firmware are the files of the firmware.
	firmware []string
	// empty are the ids of CD drives without a medium.
	empty []string
}

// newWish converts short forms of options (-hda, -nic, -vga …) to the forms that types use, and removes the options
// that can't be part of a type.
func newWish(c *Command, exact bool) *wish {
	w := &wish{exact: exact}
	if path.Base(c.Program) == "kvm" {
		w.addAccelerator(1, "kvm")
	}
	for _, one := range c.Wanted {
		if one.Unknown != "" {
			w.leaveOut(one, "contains "+one.Unknown+", which only a shell can replace; write its value")
			continue
		}
		w.addWant(one)
	}
	w.splitDisks()
	w.dropUnused()
	return w
}

func (w *wish) leaveOut(one Want, reason string) {
	w.rest = append(w.rest, Rest{one.Line, one.Text(), reason})
}

// keepOption adds an option in the form that types use.
func (w *wish) keepOption(line int, flag, value string, properties ...plan.Property) {
	w.wants = append(w.wants, Want{Line: line, Option: plan.Option{
		Flag: flag, Value: value, Properties: properties, List: len(properties) > 0 || listed(flag),
	}})
}

func listed(flag string) bool {
	row := qemuopt.Flag(flag)
	return row != nil && row.List
}

// withoutPlace are flags that have no place in a type, with the reason.
var withoutPlace = map[string]string{
	"-nographic": "the runner connects the serial port: vm.serialConsole",
	"-serial":    "the runner connects the serial port: vm.serialConsole",
	"-parallel":  "the runner has no parallel port",
	"-usb":       "the type has its own USB controller",
	"-msg":       "it concerns QEMU's messages, which the runner collects",
	"-D":         "it concerns QEMU's messages, which the runner collects",
	"-d":         "it concerns QEMU's messages, which the runner collects",
	"-trace":     "it concerns QEMU's messages, which the runner collects",
	"-snapshot":  "changes of the disks would be lost; create a disk from an image (vm.drives[].source)",
	"-add-fd":    "the descriptor belongs to another program",
	"-fda":       "vm.drives has no floppy drives",
	"-fdb":       "vm.drives has no floppy drives",
	"-k":         "the viewer knows its keyboard",
	"-L":         "the type finds the firmware: vm.firmware",
	"-id":        "only another program's QEMU has it",
	"-iscsi":     "the runner attaches disks of servers over NBD: vm.drives[].nbd",
	"-chroot":    "the runner isolates QEMU itself",
	"-run-with":  "the runner isolates QEMU itself",
	"-mem-path":  "use the type in examples/vmtypes/hugepages.star, or an object memory-backend-file",
}

// addWant adds one option of the command line.
func (w *wish) addWant(one Want) {
	if row := qemuopt.Flag(one.Flag); row != nil && row.Own != "" {
		w.leaveOut(one, row.Own)
		return
	}
	if slices.Contains([]string{"-display", "-audiodev", "-boot"}, one.Flag) && w.exact {
		w.wants = append(w.wants, one)
		return
	}
	if reason := withoutPlace[one.Flag]; reason != "" && !w.exact {
		if one.Value != "none" {
			w.leaveOut(one, reason)
		}
		return
	}
	line := one.Line
	switch one.Flag {
	case "-enable-kvm":
		w.addAccelerator(line, "kvm")
	case "-accel":
		if len(one.Properties) > 0 {
			w.wants = append(w.wants, one)
		} else {
			w.addAccelerator(line, one.Value)
		}
	case "-machine":
		w.addMachine(one)
	case "-hda", "-hdb", "-hdc", "-hdd":
		w.addDrive(line, map[string]string{"file": one.Value, "if": "ide"})
	case "-cdrom":
		w.addDrive(line, map[string]string{"file": one.Value, "media": "cdrom"})
	case "-bios", "-pflash":
		w.firmware = append(w.firmware, one.Value)
		w.wants = append(w.wants, one)
	case "-nic":
		w.addNIC(one)
	case "-net":
		w.addNet(one)
	case "-vga":
		if device := videoCards[one.Value]; device != "" {
			w.keepOption(line, "-device", device)
		} else if one.Value != "none" {
			w.leaveOut(one, "the video card is unknown")
		}
	case "-usbdevice":
		w.keepOption(line, "-device", "usb-"+strings.TrimPrefix(one.Value, "usb-"))
	case "-watchdog":
		w.keepOption(line, "-device", one.Value)
	case "-soundhw":
		w.addSound(line, one.Value)
	case "-no-hpet", "-no-acpi":
		w.setMachine(line, strings.TrimPrefix(one.Flag, "-no-"), "off")
	case "-virtfs":
		w.addVirtfs(one)
	case "-display", "-audiodev", "-boot":
		w.addWithoutDesktop(one)
	default:
		w.wants = append(w.wants, one)
	}
}

// addWithoutDesktop adds an option unless it needs a desktop. QEMU runs without one.
func (w *wish) addWithoutDesktop(one Want) {
	switch {
	case one.Flag == "-boot":
		w.addBoot(one)
	case one.Flag == "-display" && one.Value != "none":
		w.leaveOut(one, "QEMU runs without a desktop; use vm.display and a viewer")
	case one.Flag == "-audiodev" && one.Value != "none" && one.Value != "spice":
		w.leaveOut(one, "QEMU runs without the sound server of a desktop; use vm.display.spice")
	default:
		w.wants = append(w.wants, one)
	}
}

// videoCards are the devices for the values of -vga.
var videoCards = map[string]string{
	"std": "VGA", "qxl": "qxl-vga", "virtio": "virtio-vga", "cirrus": "cirrus-vga", "vmware": "vmware-svga",
}

// addAccelerator adds an accelerator unless it is the one that is given already.
func (w *wish) addAccelerator(line int, name string) {
	if !slices.ContainsFunc(w.wants, func(o Want) bool { return o.Flag == "-accel" && o.Value == name }) {
		w.keepOption(line, "-accel", name)
	}
}

// addMachine separates the accelerator from the machine.
func (w *wish) addMachine(one Want) {
	var left []plan.Property
	for _, p := range one.Properties {
		switch p.Key {
		case "accel":
			first, _, _ := strings.Cut(p.Value, ":")
			w.addAccelerator(one.Line, first)
		case "type":
			one.Value = p.Value
		default:
			left = append(left, p)
		}
	}
	if base, extension, found := strings.Cut(one.Value, "+"); found {
		one.Value = base
		w.rest = append(w.rest, Rest{one.Line, "-machine " + base + "+" + extension, "+" + extension +
			" belongs to another program's QEMU"})
	}
	if one.Properties = left; one.Value == "" {
		for _, p := range left {
			w.setMachine(one.Line, p.Key, p.Value)
		}
		return
	}
	at := w.machine()
	if at < 0 {
		w.wants = append(w.wants, one)
		return
	}
	w.wants[at].Value = one.Value // QEMU merges several
	w.wants[at].Properties = append(w.wants[at].Properties, left...)
}

// machine returns the index of the option -machine, or -1.
func (w *wish) machine() int {
	return slices.IndexFunc(w.wants, func(one Want) bool { return one.Flag == "-machine" })
}

func (w *wish) setMachine(line int, key, value string) {
	at := w.machine()
	if at < 0 {
		w.keepOption(line, "-machine", "")
		at = len(w.wants) - 1
	}
	w.wants[at].Properties = append(w.wants[at].Properties, plan.Property{Key: key, Value: value})
}

// addBoot keeps what belongs to the firmware. The order of drives is a field of the drives.
func (w *wish) addBoot(one Want) {
	left := one
	left.Properties = nil
	if one.Value != "" {
		left.Value = ""
		one.Properties = append([]plan.Property{{Key: "order", Value: one.Value}}, one.Properties...)
	}
	for _, p := range one.Properties {
		switch p.Key {
		case "order", "once":
			w.rest = append(w.rest, Rest{
				one.Line, "-boot " + p.Key + "=" + p.Value,
				"the order is a field of the drives: vm.drives[].bootindex",
			})
		default:
			left.Properties = append(left.Properties, p)
		}
	}
	if len(left.Properties) > 0 {
		w.wants = append(w.wants, left)
	}
}

// addSound adds the devices of an old option.
func (w *wish) addSound(line int, models string) {
	for _, model := range strings.Split(models, ",") {
		switch model {
		case "hda":
			w.keepOption(line, "-device", "intel-hda")
			w.keepOption(line, "-device", "hda-duplex")
		case "ac97":
			w.keepOption(line, "-device", "AC97")
		case "es1370":
			w.keepOption(line, "-device", "ES1370")
		default:
			w.keepOption(line, "-device", model)
		}
	}
}

// addVirtfs separates a shared folder into its two options.
func (w *wish) addVirtfs(one Want) {
	id := fmt.Sprintf("virtfs%d", one.Line)
	var backend, device []plan.Property
	for _, p := range one.Properties {
		if p.Key == "mount_tag" {
			device = append(device, p)
		} else if p.Key != "id" {
			backend = append(backend, p)
		}
	}
	w.keepOption(one.Line, "-fsdev", one.Value, append(backend, plan.Property{Key: "id", Value: id})...)
	w.keepOption(one.Line, "-device", "virtio-9p-pci", append(device, plan.Property{Key: "fsdev", Value: id})...)
}

// addNIC separates a network card and its connection.
func (w *wish) addNIC(one Want) {
	if one.Value == "none" {
		return
	}
	model, device, backend := "virtio-net-pci", []plan.Property{}, []plan.Property{}
	for _, p := range one.Properties {
		switch p.Key {
		case "model":
			model = p.Value
		case "mac":
			device = append(device, p)
		case "addr":
		default:
			backend = append(backend, p)
		}
	}
	w.addCard(one.Line, model, device, one.Value, backend)
}

func (w *wish) addCard(line int, model string, device []plan.Property, kind string, backend []plan.Property) {
	if model == "virtio" {
		model = "virtio-net-pci"
	}
	id := fmt.Sprintf("nic%d-%d", line, len(w.wants))
	w.keepOption(line, "-netdev", kind, append([]plan.Property{{Key: "id", Value: id}}, backend...)...)
	w.keepOption(line, "-device", model, append([]plan.Property{{Key: "netdev", Value: id}}, device...)...)
}

// addNet reads the old pair "-net nic -net user". The card waits for its connection.
func (w *wish) addNet(one Want) {
	at := slices.IndexFunc(w.wants, func(o Want) bool { return o.Flag == "-net" })
	switch {
	case one.Value == "none":
	case at < 0 || (w.wants[at].Value == "nic") == (one.Value == "nic"):
		w.wants = append(w.wants, one)
	default:
		card, backend := w.wants[at], one
		if one.Value == "nic" {
			card, backend = one, w.wants[at]
		}
		w.wants = slices.Delete(w.wants, at, at+1)
		model, device := "e1000", []plan.Property{}
		for _, p := range card.Properties {
			switch p.Key {
			case "model":
				model = p.Value
			case "macaddr":
				device = append(device, plan.Property{Key: "mac", Value: p.Value})
			}
		}
		w.addCard(card.Line, model, device, backend.Value, backend.Properties)
	}
}

// dropUnused removes references to options that were left out, and backends that no option uses.
func (w *wish) dropUnused() {
	if w.exact {
		return
	}
	for i := range w.wants {
		one := &w.wants[i]
		one.Properties = slices.DeleteFunc(slices.Clone(one.Properties), func(p plan.Property) bool {
			kind := qemuopt.Reference(one.Flag, one.Backend(), p.Key)
			return kind == qemuopt.AudioDev && w.maker(kind, p.Value) < 0
		})
	}
	used := map[string]bool{}
	for i := range w.wants {
		for _, p := range w.wants[i].Properties {
			if kind := qemuopt.Reference(w.wants[i].Flag, w.wants[i].Backend(), p.Key); kind != "" {
				used[string(kind)+" "+p.Value] = true
			}
		}
	}
	w.wants = slices.DeleteFunc(w.wants, func(one Want) bool {
		row := qemuopt.Flag(one.Flag)
		if one.Flag == "-net" {
			w.leaveOut(one, "half of a network card; write -nic")
			return true
		}
		if one.Flag != "-chardev" && one.Flag != "-netdev" || used[string(row.Makes)+" "+one.ID()] {
			return false
		}
		w.leaveOut(one, "no other option uses it")
		return true
	})
}

// maker returns the index of the option that defines an id, or -1.
func (w *wish) maker(kind qemuopt.Kind, id string) int {
	return slices.IndexFunc(w.wants, func(one Want) bool {
		row := qemuopt.Flag(one.Flag)
		return row != nil && row.Makes == kind && one.ID() == id
	})
}
