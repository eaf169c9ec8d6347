package hardware

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// Input is what New connects.
type Input struct {
	Plan *plan.Plan
	// MACs are the hardware addresses of vm.network, "" where QEMU chooses the address.
	MACs []string
	// PCI are the PCI devices from ParsePCI.
	PCI      []Function
	Attached []Attachment
	// Guest is what the agent reports, nil without an answer.
	Guest *Guest
	// Place returns FILE:LINE for a field, or "". attached means that the device was attached later.
	Place func(field string, attached bool) string
}

// Guest is an agent's report. All texts are printable and short.
type Guest struct {
	Cards  []Card
	Disks  []Disk
	Mounts []Mount
}

// A Card is a network interface of the guest.
type Card struct{ Name, MAC string }

// A Disk is a disk of the guest, by its address and serial number. Unknown texts are "".
type Disk struct {
	Name, PCI, Serial string
	// Target and Unit are the place behind the controller at PCI.
	Target, Unit int
}

// A Mount is a mounted file system on a disk. Disk.Name is the name of the disk or of its partition.
type Mount struct {
	Point string
	Disk  Disk
}

// New returns the devices of a machine: devices of the plan, devices of the machine type, and attached devices.
func New(in Input) Report {
	r := Report{Devices: devicesOf(in.Plan, in.MACs)}
	for _, a := range in.Attached {
		r.Devices = append(r.Devices, attachedDevice(in.Plan, a))
	}
	r.addPlaces(in)
	if in.Guest != nil {
		r.addGuest(*in.Guest)
	}
	r.Agent = in.Guest != nil
	r.addUsualNames(in)
	if in.Place != nil {
		for i := range r.Devices {
			if d := &r.Devices[i]; d.Field != "" {
				d.Place = in.Place(d.Field, d.Attached)
			}
		}
	}
	return r
}

// addPlaces adds the PCI addresses, and the PCI devices that no option of the plan creates.
func (r *Report) addPlaces(in Input) {
	for _, f := range in.PCI {
		i := slices.IndexFunc(r.Devices, func(d Device) bool { return d.ID != "" && d.ID == f.ID })
		if i < 0 {
			d := Device{ID: f.ID, Driver: strings.ToLower(f.Class), PCI: f.Address}
			if f.ID == "" {
				d.Lines = machineLine(in.Plan)
			}
			r.Devices = append(r.Devices, d)
			continue
		}
		r.Devices[i].PCI, r.Devices[i].Behind = f.Address, ""
	}
	for i := range r.Devices {
		if d := &r.Devices[i]; !r.hasDevice(d.Behind) {
			d.Behind = ""
		}
	}
}

func (r *Report) hasDevice(id string) bool {
	return id != "" && slices.ContainsFunc(r.Devices, func(d Device) bool { return d.ID == id })
}

// machineLine returns the line of -machine.
func machineLine(p *plan.Plan) []Line {
	for i := range p.QEMU.Args {
		if strings.TrimLeft(p.QEMU.Args[i].Flag, "-") == "machine" {
			return linesOf(p, i)[:1]
		}
	}
	return nil
}

// addGuest adds the names that the agent reports.
func (r *Report) addGuest(g Guest) {
	for _, c := range g.Cards {
		i := slices.IndexFunc(r.Devices, func(d Device) bool { return d.MAC != "" && strings.EqualFold(d.MAC, c.MAC) })
		if i >= 0 {
			r.Devices[i].addName(c.Name)
		}
	}
	for _, d := range g.Disks {
		if found := r.findDisk(d); found != nil {
			found.addName(d.Name)
		}
	}
	for _, m := range g.Mounts {
		found := r.findDisk(m.Disk)
		if found == nil {
			found = r.findNamed(wholeDisk(m.Disk.Name))
		}
		if found != nil && !slices.Contains(found.Mounts, m.Point) {
			found.Mounts = append(found.Mounts, m.Point)
		}
	}
}

func (d *Device) addName(name string) {
	if name != "" && !slices.Contains(d.Names, name) {
		d.Names = append(d.Names, name)
	}
}

// findDisk returns the device of a disk: with its serial number, at its address, or the only one behind its controller
// with its target and unit. It returns nil if that is not certain.
func (r *Report) findDisk(d Disk) *Device {
	var found []*Device
	add := func(is func(Device) bool) *Device {
		found = nil
		for i := range r.Devices {
			if is(r.Devices[i]) {
				found = append(found, &r.Devices[i])
			}
		}
		if len(found) == 1 {
			return found[0]
		}
		return nil
	}
	if d.Serial != "" {
		if device := add(func(one Device) bool { return one.Serial == d.Serial }); device != nil {
			return device
		}
	}
	if d.PCI == "" {
		return nil
	}
	at := add(func(one Device) bool { return one.PCI == d.PCI })
	if at == nil {
		return nil
	}
	if behind := add(func(one Device) bool {
		return one.Behind == at.ID && at.ID != "" && isPlace(one.target, d.Target) && isPlace(one.unit, d.Unit)
	}); behind != nil || len(found) > 1 {
		return behind
	}
	if qemuopt.IsVirtioDisk(at.Driver) || strings.HasPrefix(at.Driver, "nvme") {
		return at
	}
	return nil
}

// isPlace reports whether a property is absent or has a value.
func isPlace(property string, value int) bool {
	n, err := strconv.Atoi(property)
	return err != nil || n == value
}

// findNamed returns the device with a name of the guest, or nil.
func (r *Report) findNamed(name string) *Device {
	for i := range r.Devices {
		if slices.Contains(r.Devices[i].Names, name) {
			return &r.Devices[i]
		}
	}
	return nil
}

// addUsualNames adds the names that Linux gives devices without a name. Linux counts network cards and virtio disks
// while it scans the buses, and udev names cards after their PCI address.
func (r *Report) addUsualNames(in Input) {
	disks, cards, started, startedCards := 0, 0, 0, 0
	for i := range r.Devices {
		d := &r.Devices[i]
		if d.isCard() && !d.Attached {
			startedCards++
		}
		if qemuopt.IsVirtioDisk(d.Driver) && !d.Attached {
			started++
			if d.PCI == "" {
				return // Linux counts disks on other buses in another order
			}
		}
	}
	for _, f := range in.PCI {
		i := slices.IndexFunc(r.Devices, func(d Device) bool { return d.PCI == f.Address })
		switch d := &r.Devices[i]; {
		case qemuopt.IsVirtioDisk(d.Driver):
			number := disks
			if d.Attached {
				number = started
				started++
			} else {
				disks++
			}
			if len(d.Names) == 0 && !r.knowsDisks() {
				d.addName("/dev/vd" + lettersOf(number))
			}
		case d.isCard():
			number := &cards
			if d.Attached {
				number = &startedCards
			}
			if len(d.Names) == 0 {
				d.addName(fmt.Sprintf("eth%d", *number))
				d.addName(slotName(d.PCI))
			}
			*number++
		}
	}
}

func (d *Device) isCard() bool { return d.MAC != "" || d.card }

// knowsDisks reports whether the agent has reported disks.
func (r *Report) knowsDisks() bool {
	return r.Agent && slices.ContainsFunc(r.Devices, func(d Device) bool {
		return slices.ContainsFunc(d.Names, func(name string) bool { return strings.HasPrefix(name, "/dev/") })
	})
}

// lettersOf returns the letters of the n-th disk, counted from 0: a to z, aa, ab …
func lettersOf(n int) string {
	const letters = 26
	text := ""
	for n++; n > 0; n = (n - 1) / letters {
		text = string(rune('a'+(n-1)%letters)) + text
	}
	return text
}

// slotName returns systemd's name of the network card at a PCI address: enp0s7, enp1s0f1.
func slotName(address string) string {
	var bus, slot, function int
	if _, err := fmt.Sscanf(address, "0000:%x:%x.%x", &bus, &slot, &function); err != nil {
		return ""
	}
	name := fmt.Sprintf("enp%ds%d", bus, slot)
	if function > 0 {
		name += fmt.Sprintf("f%d", function)
	}
	return name
}

// wholeDisk returns the name of the disk with a partition: /dev/vda of /dev/vda1, /dev/nvme0n1 of /dev/nvme0n1p2.
func wholeDisk(name string) string {
	disk := strings.TrimRight(name, "0123456789")
	if disk == name || len(disk) == 0 {
		return name
	}
	if before, isPart := strings.CutSuffix(disk, "p"); isPart && strings.TrimRight(before, "0123456789") != before {
		return before
	}
	rest := strings.TrimPrefix(disk, "/dev/")
	if len(rest) > 2 && slices.Contains([]string{"vd", "sd", "hd", "xv"}, rest[:2]) {
		return disk
	}
	return name
}

// Label returns the best name of a device for people.
func (d Device) Label() string {
	names := append(slices.Clone(d.Names), d.ID, d.PCI, d.Driver)
	return cmp.Or(names...)
}
