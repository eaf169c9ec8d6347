package compare

import (
	"strings"

	"vmop/vmtypes/qemuopt"
)

// meaningOf returns the meaning of a change of one property of an option, or of its first value if property is empty.
// It returns "" if only the notation has changed.
func (c *comparison) meaningOf(p pair, property, before, after string) (Meaning, string) {
	o := p.after
	switch o.Flag {
	case "-device":
		return c.deviceMeaning(p, property, before, after)
	case "-machine":
		return c.machineMeaning(property, before, after)
	case "-blockdev", "-drive":
		return c.blockMeaning(p, property)
	case "-object":
		return c.after.objectMeaning(o, property), ""
	case "-global":
		return globalMeaning(o), ""
	case "-smp":
		if property == "cpus" && c.before.live["-smp  cpus"] {
			return CPUTopology, "CPUs that QEMU starts with; more are plugged before the guest runs"
		}
	}
	if m := qemuopt.MeaningOf(o.Flag, o.Value, property); m != "" {
		return Meaning(m), ""
	}
	return flagMeaning(o.Flag), ""
}

func (c *comparison) deviceMeaning(p pair, property, before, after string) (Meaning, string) {
	noun := qemuopt.FindDevice(p.after.Value).Noun
	switch property {
	case "":
		if noun == "a TPM" {
			return TPM, noun
		}
		return HardwareReplaced, noun
	case "addr":
		return c.addressMeaning(p, before, after, noun)
	}
	meaning := orUnknown(qemuopt.MeaningOf("-device", "", property))
	switch qemuopt.Reference("-device", "", property) {
	case qemuopt.BlockNode:
		if c.isLive(p.before, property) {
			return Medium, ""
		}
		if c.before.describeContents(before) == c.after.describeContents(after) {
			return HostOnly, "the same file under another node name"
		}
		return DiskContents, ""
	case qemuopt.Netdev:
		if c.before.definitionOf("-netdev", before) == c.after.definitionOf("-netdev", after) {
			return HostOnly, ""
		}
		return Network, ""
	case qemuopt.Object:
		if meaning != HostOnly && c.before.definitionOf("-object", before) == c.after.definitionOf("-object", after) {
			return HostOnly, ""
		}
	}
	return meaning, noun
}

// addressMeaning compares addresses, which can be set or assigned by order.
func (c *comparison) addressMeaning(p pair, before, after, noun string) (Meaning, string) {
	where := func(s *side, said string, isBefore bool) string {
		o := p.after
		if isBefore {
			o = p.before
		}
		if said == "" {
			return s.orders[o]["addr"]
		}
		return said
	}
	from, to := where(c.before, before, true), where(c.after, after, false)
	switch {
	case sameAddress(before, after):
		return "", "" // a different notation
	case sameAddress(from, to):
		return HostOnly, "the address is the same, " +
			map[bool]string{
				true:  "and now explicit",
				false: "but no longer explicit: it depends on the device order",
			}[before == ""]
	case before == "" && from != "":
		return Address, noun + ", which was at " + from + " by order"
	case after == "" && to != "":
		return Address, noun + ", which is at " + to + " by order"
	}
	return Address, noun
}

func (c *comparison) machineMeaning(property, before, after string) (Meaning, string) {
	switch property {
	case "", "type":
		if chipsetOf(before) == chipsetOf(after) {
			return MachineVersion, aliasNote(before, after)
		}
		return Chipset, ""
	case "pflash0", "pflash1":
		if before != "" && after != "" && c.before.describeContents(before) == c.after.describeContents(after) {
			return HostOnly, ""
		}
	case "memory-backend":
		if before != "" && after != "" {
			return HostOnly, "the id of the memory backend"
		}
		return HostOnly, "the memory backend"
	}
	return orUnknown(qemuopt.MeaningOf("-machine", "", property)), ""
}

// chipsetOf returns the machine type without its version: q35 for q35 and for pc-q35-7.2.
func chipsetOf(machine string) string {
	name, version, found := cutLast(machine, "-")
	if !found || strings.Trim(version, "0123456789.") != "" {
		name = machine
	}
	switch name {
	case "pc-q35":
		return "q35"
	case "pc-i440fx":
		return "pc"
	}
	return name
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// aliasNote returns a note that an alias stands for different versions, or "".
func aliasNote(before, after string) string {
	for _, machine := range []string{before, after} {
		if machine == chipsetOf(machine) {
			return machine + " is the newest version that QEMU has; a VM keeps the version of its first start"
		}
	}
	return ""
}

func (c *comparison) blockMeaning(p pair, property string) (Meaning, string) {
	role := c.after.roles[p.after.ID()]
	if role == "" {
		role = c.before.roles[p.before.ID()]
	}
	live := c.isLive(p.before, property)
	flag := p.after.Flag
	if m := qemuopt.MeaningOf(flag, "", property); m != "" {
		return Meaning(m), role
	}
	same := c.before.describeContents(p.before.ID()) == c.after.describeContents(p.after.ID())
	switch {
	case same && qemuopt.Reference(flag, "", property) == qemuopt.BlockNode:
		return HostOnly, role
	case role == firmwareCode:
		return Firmware, role
	case role == firmwareVariables:
		return Variables, role
	case live:
		return Medium, role
	case role == "":
		return HostOnly, "no device uses it"
	}
	return DiskContents, role
}
