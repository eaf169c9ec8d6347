package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"vmop/internal/printable"
	"vmop/qmp"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// An Attachment contains the commands that attach a disk to a running machine.
type Attachment struct {
	// Node is the name of the block node. It is also the ID of the device, or of the USB device around a CD
	// drive.
	Node string
	// Clear removes leftovers of an earlier attempt. Do attaches the disk. After removes what is no longer
	// needed. QEMU may refuse the commands of Clear and After.
	Clear, Do, After []qmp.Command
	// Plug plugs in the USB device around a CD drive when the drive is in it; nil if no such command is needed.
	Plug []qmp.Command
}

// firstSet is the number of the descriptor set of the first place. QEMU itself assigns the smallest free numbers.
const firstSet = 1000

// AttachmentOf returns how a disk is attached to a slot. file is the disk's file, or nil for a disk on an NBD
// server. It may be closed after QEMU has answered.
func AttachmentOf(rule plan.Disks, w Drive, slot Slot, file *os.File) (a Attachment) {
	place := slot.Place
	p := plugged{place: place, mark: w.identityMark(), serial: w.Serial, cd: w.isCD()}.withName()
	a.Node = p.name
	var node map[string]any
	if w.NBD != nil {
		node = serverNode(*w.NBD, a.Node, w.ReadOnly)
		w.tuneNode(node)
		if w.NBD.TLS != "" {
			node["tls-creds"] = credentialsID(w.Serial)
			a.Clear = []qmp.Command{removeCredentials(w.Serial)}
			a.Do = []qmp.Command{commandOf("object-add", map[string]any{
				"qom-type": "tls-creds-x509", "id": credentialsID(w.Serial), "endpoint": "client", "verify-peer": true,
				"dir": w.NBD.TLS,
			})}
		}
	} else {
		set := firstSet + place
		add := commandOf("add-fd", map[string]any{"fdset-id": set, "opaque": a.Node})
		add.File = file
		remove := commandOf("remove-fd", map[string]any{"fdset-id": set}) // QEMU has a copy in the node
		node = fileNode(w, a.Node, fmt.Sprintf("/dev/fdset/%d", set))
		a.Clear, a.Do, a.After = []qmp.Command{remove}, []qmp.Command{add}, []qmp.Command{remove}
	}
	a.Do = append(a.Do, commandOf("blockdev-add", node))
	if p.cd {
		a.Clear = append(a.Clear, unplugCommand(rule, p))
		a.Do = append(a.Do, cdDevices(rule, p, slot.CD)...)
		if rule.CDHolder != "" {
			a.Plug = []qmp.Command{plugIn(p)}
		}
		return a
	}
	device := map[string]any{
		"driver": rule.Driver, "id": a.Node, "bus": rule.Buses[place], "drive": a.Node, "serial": w.Serial,
		"werror": "stop", "rerror": "stop",
	}
	w.tuneDevice(device)
	a.Do = append(a.Do, commandOf("device_add", device))
	return a
}

// cdDevices returns the commands that attach a CD drive. address is a USB port or a SCSI ID; with "", QEMU
// chooses one. The guest does not see a drive on USB until drives.show plugs it in.
func cdDevices(rule plan.Disks, p plugged, address string) (commands []qmp.Command) {
	device := map[string]any{
		"driver": rule.CDDriver, "id": p.deviceID(), "bus": rule.CDBus, "drive": p.name, "serial": p.serial,
	}
	outer := device
	if rule.CDHolder != "" {
		outer = map[string]any{"driver": rule.CDHolder, "id": p.name, "bus": rule.CDBus}
		device["bus"] = p.name + ".0"
		commands = append(commands, commandOf("device_add", outer))
	}
	switch {
	case address == "":
	case rule.CDHolder != "":
		outer["port"] = address
	default:
		outer[scsiAddress] = json.Number(address)
	}
	return append(commands, commandOf("device_add", device))
}

// unplugCommand returns the command that requests the removal of a disk, or removes a CD drive with the device around
// it.
func unplugCommand(rule plan.Disks, p plugged) qmp.Command {
	id := p.name
	if p.cd && rule.CDHolder == "" {
		id = p.deviceID()
	}
	return commandOf("device_del", map[string]any{"id": id})
}

// fileNode returns the arguments of blockdev-add for a disk, as in the stock types.
func fileNode(w Drive, name, file string) map[string]any {
	place := map[string]any{"driver": "file", "filename": file, "read-only": w.ReadOnly, "discard": "unmap"}
	if w.Device != "" {
		place["driver"], place["aio"], place["cache"] = "host_device", "native", map[string]any{"direct": true}
	}
	w.tuneData(place)
	node := map[string]any{
		"node-name": name, "driver": w.Format, "file": place, "read-only": w.ReadOnly, "discard": place["discard"],
	}
	w.tuneNode(node)
	if w.Format != "raw" {
		node["backing"] = nil // no backing file
	}
	return node
}

// serverNode returns the arguments of blockdev-add for a disk on an NBD server, without its certificates.
func serverNode(of vmspec.NBD, name string, readOnly bool) map[string]any {
	node := map[string]any{
		"node-name": name, "driver": "nbd", "export": of.Export, "read-only": readOnly, "discard": "unmap",
		"server":          map[string]any{"type": "inet", "host": of.Host, "port": strconv.Itoa(of.Port)},
		"reconnect-delay": reconnectDelay, "open-timeout": openTimeout,
	}
	if of.Export == "" {
		delete(node, "export")
	}
	return node
}

// A Slot is the location of a disk attached while the machine runs. After a migration the guest must find the
// disk in the same slot.
type Slot struct {
	// Place is the index of the port in the rule's buses.
	Place int `json:"place"`
	// Serial is the disk's serial number.
	Serial string `json:"serial"`
	// ReadOnly reports whether the guest sees the disk as read-only.
	ReadOnly bool `json:"readOnly,omitempty"`
	// CD is the address of a CD drive on the rule's bus; "" for a disk.
	CD string `json:"cd,omitempty"`
}

// Is reports whether a wanted drive can be the drive in the slot.
func (s Slot) Is(d Drive) bool {
	return d.Serial == s.Serial && d.ReadOnly == s.ReadOnly && d.isCD() == (s.CD != "")
}

// Bus returns the slot's location and device driver according to a rule. there is false if the rule has no such
// location.
func (s Slot) Bus(rule plan.Disks) (bus, driver string, there bool) {
	if s.CD == "" {
		if s.Place < 0 || s.Place >= len(rule.Buses) {
			return "", "", false
		}
		return rule.Buses[s.Place], rule.Driver, true
	}
	driver = rule.CDDriver
	if rule.CDHolder != "" {
		driver = rule.CDHolder + " with " + driver
	}
	_, err := strconv.ParseUint(s.CD, 10, 8)
	there = rule.CDDriver != "" && err == nil
	return "place " + s.CD + " of " + rule.CDBus, driver, there
}

// Noun returns the kind of drive in the slot, for messages.
func (s Slot) Noun() string { return plugged{cd: s.CD != ""}.nounForPeople() }

// SlotOf returns the slot of the wanted disk with a device ID, without the address of a CD drive (see
// AddressOfCD). It returns an error if the disk is not wanted, or if a different disk with the same serial number
// is wanted.
func SlotOf(id string, want []Drive) (Slot, error) {
	p, ours := parsePlugged(id)
	if !ours {
		return Slot{}, errors.New("its disk " + printable.Line(id) + " was attached by hand; detach it first")
	}
	for _, w := range want {
		switch {
		case w.Serial != p.serial:
		case !p.isDrive(w):
			return Slot{}, fmt.Errorf("its %s %s is attached with another file, format or readOnly than %s has", p.nounForPeople(),
				p.serial, w.Path())
		default:
			return Slot{Place: p.place, Serial: p.serial, ReadOnly: w.ReadOnly}, nil
		}
	}
	return Slot{}, fmt.Errorf("its %s %s is to be detached, and the guest has not released it yet", p.nounForPeople(), p.serial)
}
