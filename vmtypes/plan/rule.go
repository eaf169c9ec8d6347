package plan

import (
	"fmt"
	"slices"
	"strings"
)

// A Rule says what may change while the VM runs, and how QEMU knows it. The
// kinds are the types in this file; no rule, no change.
type Rule interface {
	// Kind is the rule's name in Starlark: "cpus" for hotplug.cpus.
	Kind() string
	// String is the rule's line in the text form.
	String() string
	rule()
}

// Rules are all rules of a plan.
type Rules []Rule

// Has reports whether there is a rule of a kind.
func (rs Rules) Has(kind string) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool { return r.Kind() == kind })
}

// Disks returns the rule of that kind, and whether there is one.
func (rs Rules) Disks() (Disks, bool) {
	for _, r := range rs {
		if d, is := r.(Disks); is {
			return d, true
		}
	}
	return Disks{}, false
}

// CPUs says that CPUs can be plugged and unplugged (device_add, device_del).
type CPUs struct {
	// Boot is how many CPUs QEMU starts with, Maximum how many there may be.
	Boot    int `json:"boot"`
	Maximum int `json:"maximum"`
	// ID is the pattern of the ids of plugged CPUs, with one %d.
	ID string `json:"id"`
}

// Balloon says that memory can be taken back from the guest and returned
// (balloon).
type Balloon struct {
	// Device is the id of the balloon device, Maximum the whole memory in bytes.
	Device  string `json:"device"`
	Maximum int64  `json:"maximum"`
}

// Memory says that memory can be plugged and unplugged (virtio-mem). A plan has
// this or a balloon: both would follow vm.currentRam.
type Memory struct {
	// Device is the id of the virtio-mem device.
	Device string `json:"device"`
	// Base is the memory that the machine has without the device, Maximum all
	// that it can have, and Block the device's block-size, in bytes.
	Base    int64 `json:"base"`
	Maximum int64 `json:"maximum"`
	Block   int64 `json:"block"`
}

// Medium says that the medium of a CD drive can be changed.
type Medium struct {
	// Drive is the index in vm.drives whose file is the wanted medium.
	Drive int `json:"drive"`
	// Device is the id of the drive's device.
	Device string `json:"device"`
}

// Disk says that a disk can grow (block_resize).
type Disk struct {
	// Drive is the index in vm.drives whose file or device is the disk.
	Drive int `json:"drive"`
	// Device is the id of the disk's device.
	Device string `json:"device"`
}

// Disks says that disks can be attached and detached (device_add, device_del).
type Disks struct {
	// Driver is that of their devices.
	Driver string `json:"driver"`
	// Buses are the ids of the ports that have a place for one device each, at most
	// MaxPluggedDisks.
	Buses []string `json:"buses"`
	// CDDriver is that of CD drives, CDBus the bus to which they are attached; "": they can't be. CDHolder is the
	// driver of what each is in on that bus, which has a SCSI bus of its own; "" if the drive is on CDBus.
	CDDriver string `json:"cdDriver,omitempty"`
	CDBus    string `json:"cdBus,omitempty"`
	CDHolder string `json:"cdHolder,omitempty"`
}

// MaxPluggedDisks is how many disks can be attached while a machine runs, at most: a place is one digit in the
// names that the runner gives them, see docs/decisions/0107-attached-disks.md.
const MaxPluggedDisks = 32

// Password says that the password of a display can be set (set_password,
// expire_password).
type Password struct {
	// Protocol is "spice" or "vnc".
	Protocol string `json:"protocol"`
	// Display is the id of the VNC display; empty means the first.
	Display string `json:"display,omitempty"`
}

// Ports says that ports of the host can be forwarded to the guest, and no longer be, by a
// user network (hostfwd_add, hostfwd_remove).
type Ports struct {
	// Network is the index in vm.network whose ports are wanted.
	Network int `json:"network"`
	// Netdev is the id of the network.
	Netdev string `json:"netdev"`
}

// Device returns the id of the device, or of the network backend, that a rule is about, or "".
func Device(r Rule) string {
	switch r := r.(type) {
	case Balloon:
		return r.Device
	case Memory:
		return r.Device
	case Medium:
		return r.Device
	case Disk:
		return r.Device
	case Ports:
		return r.Netdev
	}
	return ""
}

// Kind implements Rule.
func (CPUs) Kind() string     { return "cpus" }
func (Balloon) Kind() string  { return "balloon" }
func (Memory) Kind() string   { return "memory" }
func (Medium) Kind() string   { return "medium" }
func (Disk) Kind() string     { return "disk" }
func (Disks) Kind() string    { return "disks" }
func (Password) Kind() string { return "password" }
func (Ports) Kind() string    { return "ports" }

// String implements Rule.
func (r CPUs) String() string {
	return fmt.Sprintf("cpus boot=%d maximum=%d id=%s", r.Boot, r.Maximum, r.ID)
}

func (r Balloon) String() string {
	return fmt.Sprintf("balloon device=%s maximum=%d", r.Device, r.Maximum)
}

func (r Memory) String() string {
	return fmt.Sprintf("memory device=%s base=%d maximum=%d block=%d", r.Device, r.Base, r.Maximum, r.Block)
}

func (r Medium) String() string {
	return fmt.Sprintf("medium drive=%d device=%s", r.Drive, r.Device)
}

func (r Disk) String() string {
	return fmt.Sprintf("disk drive=%d device=%s", r.Drive, r.Device)
}

func (r Disks) String() string {
	text := fmt.Sprintf("disks driver=%s buses=%s", r.Driver, strings.Join(r.Buses, ","))
	if r.CDDriver != "" {
		text += " cdDriver=" + r.CDDriver + " cdBus=" + r.CDBus
	}
	if r.CDHolder != "" {
		text += " cdHolder=" + r.CDHolder
	}
	return text
}

func (r Password) String() string {
	if r.Display == "" {
		return "password protocol=" + r.Protocol
	}
	return "password protocol=" + r.Protocol + " display=" + r.Display
}

func (r Ports) String() string {
	return fmt.Sprintf("ports network=%d netdev=%s", r.Network, r.Netdev)
}

func (CPUs) rule()     {}
func (Balloon) rule()  {}
func (Memory) rule()   {}
func (Medium) rule()   {}
func (Disk) rule()     {}
func (Disks) rule()    {}
func (Password) rule() {}
func (Ports) rule()    {}
