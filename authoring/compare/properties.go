package compare

import (
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// presenceOf returns the meaning of an added or removed option. other is the plan without the option.
func (s *side) presenceOf(o *plan.Option, added bool, other *side) (Meaning, string) {
	switch o.Flag {
	case "-device":
		noun := qemuopt.FindDevice(o.Value).Noun
		if noun == "a TPM" {
			return TPM, noun
		}
		if added {
			return HardwareAdded, noun
		}
		return HardwareRemoved, noun
	case "-blockdev", "-drive":
		return s.blockPresence(o, added, other)
	case "-machine":
		return Chipset, "without it QEMU uses its default machine"
	case "-object":
		return s.objectMeaning(o, ""), ""
	case "-global":
		return globalMeaning(o), ""
	case "-nodefaults":
		return HardwareReplaced, "without it QEMU adds a network card, a video card, a CD drive and more"
	}
	return flagMeaning(o.Flag), ""
}

// blockPresence returns the meaning of an added or removed block node. The meaning depends on the role of the node.
func (s *side) blockPresence(o *plan.Option, added bool, other *side) (Meaning, string) {
	role := s.roles[o.ID()]
	device, isDisk := strings.CutPrefix(role, diskRole)
	switch {
	case isDisk && other.made["-device "+device] == nil:
		return HostOnly, "part of the " + role + ", which is added or removed"
	case role == firmwareCode, role == firmwareVariables:
		return Firmware, role
	case role != "":
		if s.live[o.Flag+" "+o.ID()] {
			return Medium, role
		}
		return DiskContents, role
	case o.Flag == "-drive" && propertyValue(o, "if") != "none":
		if added {
			return HardwareAdded, "a drive"
		}
		return HardwareRemoved, "a drive"
	}
	return HostOnly, "no device uses it"
}

// objectMeaning returns the meaning of a property of -object, or of the object itself if key is empty.
func (s *side) objectMeaning(o *plan.Option, key string) Meaning {
	row := qemuopt.Find(o.Flag, o.Value)
	if m := row.Property(key).Guest; m != "" {
		return Meaning(m)
	}
	return orUnknown(row.Guest)
}

// globalMeaning returns the meaning of a property that -global sets. If the table lacks a meaning for -global, the
// meaning of the device property applies.
func globalMeaning(o *plan.Option) Meaning {
	global := globalOf(o)
	property := global[strings.LastIndexByte(global, '.')+1:]
	if m := qemuopt.MeaningOf(o.Flag, "", property); m != "" {
		return Meaning(m)
	}
	return orUnknown(qemuopt.MeaningOf("-device", "", property))
}

// flagMeaning returns the meaning of an option as a whole.
func flagMeaning(flag string) Meaning {
	if row := qemuopt.Flag(flag); row != nil {
		return orUnknown(row.Guest)
	}
	return Unknown
}

func orUnknown(m qemuopt.Meaning) Meaning {
	if m == "" {
		return Unknown
	}
	return Meaning(m)
}
