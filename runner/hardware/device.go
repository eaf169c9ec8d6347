package hardware

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"vmop/internal/printable"
	"vmop/vmtypes/plan"
)

// A Report describes the devices of a running machine.
type Report struct {
	Devices []Device `json:"devices"`
	// Agent reports whether the guest agent has told the guest's names of disks and network interfaces. Otherwise Names
	// are those that Linux usually gives.
	Agent bool `json:"agent"`
}

// A Device is a device of the machine. Texts from the guest are printable and short.
type Device struct {
	// ID is the device's id in QEMU, Driver its model: virtio-blk-pci. They are empty if the machine creates it.
	ID     string `json:"id,omitempty"`
	Driver string `json:"driver,omitempty"`
	// PCI is the address as lspci -D shows it in the guest, 0000:00:0f.0; empty without one. For a device behind a
	// controller, it is empty, and Behind is the id of the controller.
	PCI    string `json:"pci,omitempty"`
	Behind string `json:"behind,omitempty"`
	Serial string `json:"serial,omitempty"`
	MAC    string `json:"mac,omitempty"`
	// Names are the guest's names, such as /dev/vdb or eth1. Mounts are the mount points of its file systems.
	Names  []string `json:"names,omitempty"`
	Mounts []string `json:"mounts,omitempty"`
	// Field is the field of the configuration that requests the device, such as vm.drives[1]. Place is its line,
	// FILE:LINE.
	Field string `json:"field,omitempty"`
	Place string `json:"place,omitempty"`
	// Attached means that the device was attached while the guest was running.
	Attached bool `json:"attached,omitempty"`
	// Lines are the lines of the plan that created the device.
	Lines []Line `json:"lines,omitempty"`

	target, unit string // properties scsi-id and lun
	card         bool   // it has a network backend
}

// ShortPCI returns a PCI address as lspci shows it: 00:0f.0.
func ShortPCI(address string) string { return strings.TrimPrefix(address, "0000:") }

// A Line is a line of the plan with its origin, as plan.Plan.Why shows them.
type Line struct {
	Text   string `json:"text"`
	Origin string `json:"origin,omitempty"`
}

// An Attachment is a disk or a network card, attached while the guest was running.
type Attachment struct {
	ID, Serial string
	// MAC and Driver are the hardware address and the driver of a network card; "" for a disk.
	MAC, Driver string
	// Index is the index in vm.drives or vm.network, or plan.NotInConfiguration.
	Index int
	// CD means that it is a CD drive.
	CD bool
}

// devicesOf returns the devices of a plan in its order, without places on buses.
func devicesOf(p *plan.Plan, macs []string) []Device {
	var devices []Device
	cards := 0
	for i := range p.QEMU.Args {
		o := p.QEMU.Args[i].Structured()
		if strings.TrimLeft(o.Flag, "-") != "device" {
			continue
		}
		get := func(key string) string {
			value, _ := o.Get(key)
			return value
		}
		d := Device{
			ID: o.ID(), Driver: cmp.Or(o.Value, get("driver")), Serial: get("serial"), MAC: strings.ToLower(get("mac")),
			target: get("scsi-id"), unit: get("lun"),
		}
		d.Behind, _, _ = strings.Cut(get("bus"), ".")
		if drive, found := p.Drive(d.ID, get("drive")); found && drive.Index != plan.NotInConfiguration {
			d.Field = driveField(drive.Index)
		}
		if get("netdev") != "" {
			d.Field, d.card = cardField(d.MAC, cards, macs), true
			cards++
		}
		d.Lines = linesOf(p, i)
		devices = append(devices, d)
	}
	return devices
}

func driveField(index int) string { return fmt.Sprintf("vm.drives[%d]", index) }

// cardField returns the field of a network card with a hardware address. macs are the addresses of vm.network, "" if
// QEMU chooses. A card without an address belongs to an item without one at the same position.
func cardField(mac string, position int, macs []string) string {
	index := slices.IndexFunc(macs, func(of string) bool { return of != "" && strings.EqualFold(of, mac) })
	if index < 0 && mac == "" && position < len(macs) && macs[position] == "" {
		index = position
	}
	if index < 0 {
		return ""
	}
	return networkField(index)
}

func networkField(index int) string { return fmt.Sprintf("vm.network[%d]", index) }

// linesOf returns the line of an argument, and the lines of its backends.
func linesOf(p *plan.Plan, argument int) []Line {
	var lines []Line
	seen := map[int]bool{}
	var add func(i int)
	add = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		o := p.QEMU.Args[i]
		lines = append(lines, Line{o.Text(), printable.Line(o.Origin.String())})
		for _, property := range o.Structured().Properties {
			for j := range p.QEMU.Args {
				if other := p.QEMU.Args[j].Structured(); isBackend(other.Flag) && other.ID() == property.Value &&
					property.Value != "" && property.Key != "id" && property.Key != "node-name" {
					add(j)
				}
			}
		}
	}
	add(argument)
	return lines
}

// isBackend reports whether an option creates an object of the host that a device uses.
func isBackend(flag string) bool {
	switch strings.TrimLeft(flag, "-") {
	case "blockdev", "drive", "netdev", "chardev", "object", "audiodev", "tpmdev", "fsdev":
		return true
	}
	return false
}

// attachedDevice returns an attached disk or network card, without its place.
func attachedDevice(p *plan.Plan, a Attachment) Device {
	d := Device{ID: a.ID, Serial: a.Serial, MAC: a.MAC, Driver: a.Driver, Attached: true, card: a.MAC != ""}
	field := driveField
	if d.card {
		field = networkField
	} else if rule, found := p.Rules.Disks(); found {
		d.Driver = rule.Driver
		if a.CD {
			d.Driver = rule.CDDriver
		}
	}
	for i, rule := range p.Rules {
		_, forDisks := rule.(plan.Disks)
		_, forCards := rule.(plan.NICs)
		if forDisks && !d.card || forCards && d.card {
			d.Lines = []Line{{printable.Line("rule " + rule.String()), printable.Line(p.RuleOrigin(i).String())}}
		}
	}
	if a.Index != plan.NotInConfiguration {
		d.Field = field(a.Index)
	}
	return d
}
