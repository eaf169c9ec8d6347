package guest

import (
	"context"
	"fmt"
	"strings"
)

// Limits of a guest's report about its disks.
const (
	MaxDisks       = 128 // more disks are left out, and more file systems
	maxDisksOfOne  = 16  // disks of one file system
	mostPCINumbers = 1 << 16
)

// A Disk is a disk of the guest, or a part of it.
type Disk struct {
	// Name is the guest's name, such as /dev/vdb, printable and short.
	Name string
	// Partition means that the disk is a part of another disk.
	Partition bool
	DiskAddress
}

// A DiskAddress is where a guest finds a disk.
type DiskAddress struct {
	// PCI is the address of the disk, or of its controller, as lspci -D shows it: 0000:00:0f.0. It is empty if it is
	// unknown.
	PCI string
	// Target and Unit are the address behind a controller.
	Target, Unit int
	// Serial is the serial number, empty if it is unknown. Device is the name of the disk or partition.
	Serial, Device string
}

// A FileSystem is a mounted file system of the guest.
type FileSystem struct {
	// Mount is the mount point.
	Mount string
	// Disks are the disks or partitions with the file system.
	Disks []DiskAddress
}

// reportedAddress is GuestDiskAddress of the reference.
type reportedAddress struct {
	PCI struct {
		Domain, Bus, Slot, Function int
	} `json:"pci-controller"`
	Target, Unit int
	Serial, Dev  string
}

// checkedAddress returns the valid parts of an address. Agents report unknown numbers as -1.
func (r *reportedAddress) checkedAddress() (a DiskAddress) {
	if r == nil {
		return a
	}
	a = DiskAddress{Target: r.Target, Unit: r.Unit, Serial: fitText(r.Serial), Device: fitText(r.Dev)}
	p := r.PCI
	const buses, slots, functions = 256, 32, 8
	isIn := func(n, most int) bool { return n >= 0 && n < most }
	if isIn(p.Domain, mostPCINumbers) && isIn(p.Bus, buses) && isIn(p.Slot, slots) && isIn(p.Function, functions) {
		a.PCI = fmt.Sprintf("%04x:%02x:%02x.%x", p.Domain, p.Bus, p.Slot, p.Function)
	}
	return a
}

// Disks queries the guest's disks and partitions (guest-get-disks, since version 5.2 of the agent).
func (a *Agent) Disks(ctx context.Context) ([]Disk, error) {
	var said []struct {
		Name      string
		Partition bool
		Address   *reportedAddress
	}
	if err := a.queryAgent(ctx, "guest-get-disks", &said); err != nil {
		return nil, err
	}
	var all []Disk
	for _, s := range said {
		if name := fitText(s.Name); strings.TrimSpace(name) != "" && len(all) < MaxDisks {
			all = append(all, Disk{name, s.Partition, s.Address.checkedAddress()})
		}
	}
	return all, nil
}

// FileSystems queries the guest's mounted file systems (guest-get-fsinfo).
func (a *Agent) FileSystems(ctx context.Context) ([]FileSystem, error) {
	var said []struct {
		Mount string `json:"mountpoint"`
		Disk  []*reportedAddress
	}
	if err := a.queryAgent(ctx, "guest-get-fsinfo", &said); err != nil {
		return nil, err
	}
	var all []FileSystem
	for _, s := range said {
		f := FileSystem{Mount: fitText(s.Mount)}
		for _, d := range s.Disk[:min(len(s.Disk), maxDisksOfOne)] {
			f.Disks = append(f.Disks, d.checkedAddress())
		}
		if strings.TrimSpace(f.Mount) != "" && len(all) < MaxDisks {
			all = append(all, f)
		}
	}
	return all, nil
}
