package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"vmop/printable"
	"vmop/qmp"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// An Attachment is how a disk is attached to a running machine.
type Attachment struct {
	// Node is the name of the block node, and the id of the device, or of what a CD drive is in.
	Node string
	// Clear removes what an earlier attempt may have left, and After what isn't needed any more; QEMU may refuse both.
	// With Do in between the disk is attached.
	Clear, Do, After []qmp.Command
	// Plug plugs in the USB device that a CD drive is in, when the drive is in it; nil: it needs no such command.
	Plug []qmp.Command
}

// firstSet is the number of the set of descriptors for the first place: QEMU gives others
// the smallest that is free.
const firstSet = 1000

// AttachmentOf returns how a disk gets into a slot. file is that of the disk, nil for one of an NBD server; it may be
// closed when QEMU has answered.
func AttachmentOf(rule plan.Disks, w Drive, slot Slot, file *os.File) (a Attachment) {
	place := slot.Place
	p := plugged{place: place, mark: w.mark(), serial: w.Serial, cd: w.isCD()}.named()
	a.Node = p.name
	var node map[string]any
	if w.NBD != nil {
		node = serverNode(*w.NBD, a.Node, w.ReadOnly)
		if w.NBD.TLS != "" {
			node["tls-creds"] = credentials(w.Serial)
			a.Clear = []qmp.Command{removeCredentials(w.Serial)}
			a.Do = []qmp.Command{commandOf("object-add", map[string]any{
				"qom-type": "tls-creds-x509", "id": credentials(w.Serial), "endpoint": "client", "verify-peer": true,
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
		a.Clear = append(a.Clear, unplug(rule, p))
		a.Do = append(a.Do, cdDevices(rule, p, slot.CD)...)
		if rule.CDHolder != "" {
			a.Plug = []qmp.Command{plugIn(p)}
		}
		return a
	}
	a.Do = append(a.Do, commandOf("device_add", map[string]any{
		"driver": rule.Driver, "id": a.Node, "bus": rule.Buses[place], "drive": a.Node, "serial": w.Serial,
		"werror": "stop", "rerror": "stop",
	}))
	return a
}

// cdDevices returns the commands that attach a CD drive at an address of its bus, which is a port of USB or a number of
// SCSI; "": QEMU finds one. The guest sees one on USB by drives.show.
func cdDevices(rule plan.Disks, p plugged, address string) (commands []qmp.Command) {
	device := map[string]any{
		"driver": rule.CDDriver, "id": p.device(), "bus": rule.CDBus, "drive": p.name, "serial": p.serial,
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

// unplug returns the command that asks for the removal of a disk, or removes a CD drive, with what it is in.
func unplug(rule plan.Disks, p plugged) qmp.Command {
	id := p.name
	if p.cd && rule.CDHolder == "" {
		id = p.device()
	}
	return commandOf("device_del", map[string]any{"id": id})
}

// fileNode returns the arguments of blockdev-add for a disk, as the stock types have them.
func fileNode(w Drive, name, file string) map[string]any {
	place := map[string]any{"driver": "file", "filename": file, "read-only": w.ReadOnly, "discard": "unmap"}
	if w.Device != "" {
		place["driver"], place["aio"], place["cache"] = "host_device", "native", map[string]any{"direct": true}
	}
	node := map[string]any{
		"node-name": name, "driver": w.Format, "file": place, "read-only": w.ReadOnly, "discard": "unmap",
	}
	if w.Format != "raw" {
		node["backing"] = nil // it has none
	}
	return node
}

// serverNode returns those for a disk of an NBD server, without its certificates.
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

// A Slot is where a disk is that was attached while the machine runs: a guest that moves must find it there.
type Slot struct {
	// Place is the index of the port in the rule's buses.
	Place int `json:"place"`
	// Serial is the disk's serial number.
	Serial string `json:"serial"`
	// ReadOnly is what the guest sees of it.
	ReadOnly bool `json:"readOnly,omitempty"`
	// CD is the address of a CD drive on the rule's bus; "": it is a disk.
	CD string `json:"cd,omitempty"`
}

// Is reports whether a drive that is wanted can be the one in the slot.
func (s Slot) Is(d Drive) bool {
	return d.Serial == s.Serial && d.ReadOnly == s.ReadOnly && d.isCD() == (s.CD != "")
}

// Bus returns where the slot is by a rule, and what is plugged in there; false if the rule has no such place.
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

// Noun is what is in the slot.
func (s Slot) Noun() string { return plugged{cd: s.CD != ""}.noun() }

// SlotOf returns the slot of a disk, by the id of its device, as one of those that are wanted. The address of a CD
// drive QEMU knows (AddressOfCD). It is an error if it is none of them, or another one of the same serial number.
func SlotOf(id string, want []Drive) (Slot, error) {
	p, ours := parsePlugged(id)
	if !ours {
		return Slot{}, errors.New("its disk " + printable.Line(id) + " was attached by hand; detach it first")
	}
	for _, w := range want {
		switch {
		case w.Serial != p.serial:
		case !p.is(w):
			return Slot{}, fmt.Errorf("its %s %s is attached with another file, format or readOnly than %s has", p.noun(),
				p.serial, w.Path())
		default:
			return Slot{Place: p.place, Serial: p.serial, ReadOnly: w.ReadOnly}, nil
		}
	}
	return Slot{}, fmt.Errorf("its %s %s is to be detached, and the guest has not released it yet", p.noun(), p.serial)
}
