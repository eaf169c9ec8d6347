package plan

import (
	"fmt"
	"slices"
	"strings"
)

// A Rule defines something that may change while the VM is running, with QEMU's names for it. The kinds are the
// types in this file. Each change needs a rule.
type Rule interface {
	// Kind returns the name of the rule in Starlark: "cpus" for hotplug.cpus.
	Kind() string
	// String returns the rule's line in the text form.
	String() string
	rule()
}

// Rules are all rules of a plan.
type Rules []Rule

// Has reports whether there is a rule with this kind.
func (rs Rules) Has(kind string) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool { return r.Kind() == kind })
}

// Disks returns the rule of type Disks, and whether it exists.
func (rs Rules) Disks() (Disks, bool) {
	for _, r := range rs {
		if d, is := r.(Disks); is {
			return d, true
		}
	}
	return Disks{}, false
}

// CPUs means that CPUs can be added and removed (device_add, device_del).
type CPUs struct {
	// Boot is the number of CPUs at QEMU's start, and Maximum the maximum number.
	Boot    int `json:"boot"`
	Maximum int `json:"maximum"`
	// ID is the pattern for the ids of added CPUs, with one %d.
	ID string `json:"id"`
}

// Balloon means that memory can be taken from the guest and returned (balloon).
type Balloon struct {
	// Device is the id of the balloon device. Maximum is the guest's whole memory in bytes.
	Device  string `json:"device"`
	Maximum int64  `json:"maximum"`
}

// Memory means that memory can be added and removed (virtio-mem). A plan contains at most one of Memory and
// Balloon, because both would be controlled by vm.currentRam.
type Memory struct {
	// Device is the id of the virtio-mem device.
	Device string `json:"device"`
	// Base is the machine's memory without the device, Maximum its maximum memory, and Block the device's
	// block-size, all in bytes.
	Base    int64 `json:"base"`
	Maximum int64 `json:"maximum"`
	Block   int64 `json:"block"`
}

// Medium means that the medium of a CD drive can be changed.
type Medium struct {
	// Drive is the index in vm.drives of the drive. Its file is the configured medium.
	Drive int `json:"drive"`
	// Device is the id of the drive's device.
	Device string `json:"device"`
}

// Disk means that a disk can grow (block_resize).
type Disk struct {
	// Drive is the index in vm.drives of the drive. Its file or device is the disk.
	Drive int `json:"drive"`
	// Device is the id of the disk's device.
	Device string `json:"device"`
}

// Limits means that the limits of a disk's speed can change (block_set_io_throttle).
type Limits struct {
	// Drive is the index in vm.drives of the drive with the limits.
	Drive int `json:"drive"`
	// Device is the id of the disk's device.
	Device string `json:"device"`
}

// Disks means that disks can be attached and detached (device_add, device_del).
type Disks struct {
	// Driver is the driver of their devices.
	Driver string `json:"driver"`
	// Buses are the ids of ports for one device each, at most MaxPluggedDisks.
	Buses []string `json:"buses"`
	// CDDriver is the driver of CD drives, and CDBus their bus. If CDDriver is "", attaching CD drives is
	// impossible. CDHolder is the driver of a device on CDBus that contains one CD drive on its own SCSI bus; ""
	// if the CD drive is directly on CDBus.
	CDDriver string `json:"cdDriver,omitempty"`
	CDBus    string `json:"cdBus,omitempty"`
	CDHolder string `json:"cdHolder,omitempty"`
}

// MaxPluggedDisks is the maximum number of disks that can be attached to a running machine. The runner's names
// for them contain the place as one digit, see docs/decisions/0107-attached-disks.md.
const MaxPluggedDisks = 32

// Password means that the password of a display can be set (set_password, expire_password).
type Password struct {
	// Protocol is "spice" or "vnc".
	Protocol string `json:"protocol"`
	// Display is the id of the VNC display; empty means the first.
	Display string `json:"display,omitempty"`
}

// Ports means that the port forwards of a user network can be added and removed (hostfwd_add, hostfwd_remove).
type Ports struct {
	// Network is the index in vm.network of the network that configures the ports.
	Network int `json:"network"`
	// Netdev is the id of the network.
	Netdev string `json:"netdev"`
}

// Device returns the id of the device or network backend that is the subject of a rule, or "".
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
	case Limits:
		return r.Device
	case Link:
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
func (Limits) Kind() string   { return "limits" }
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

func (r Limits) String() string {
	return fmt.Sprintf("limits drive=%d device=%s", r.Drive, r.Device)
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
func (Limits) rule()   {}
func (Disks) rule()    {}
func (Password) rule() {}
func (Ports) rule()    {}
