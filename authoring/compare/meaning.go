package compare

import "vmop/vmtypes/qemuopt"

// A Level says who notices a change, the gravest first.
type Level int

// The levels.
const (
	// Fails: there is no plan any more, or there is one now.
	Fails Level = iota
	// Guest: the guest sees it.
	Guest
	// Unclear: the guest may see it; what it means is not known.
	Unclear
	// Runner: what may change while the VM runs, and what becomes of mishaps.
	Runner
	// Host: the guest sees nothing of it.
	Host
)

// Levels returns all levels, the gravest first.
func Levels() []Level { return []Level{Fails, Guest, Unclear, Runner, Host} }

// String returns the heading for changes of this level.
func (l Level) String() string {
	return map[Level]string{
		Fails: "Starting", Guest: "The guest sees", Unclear: "Meaning unknown", Runner: "While the VM runs", Host: "On the host only",
	}[l]
}

// MarshalText writes a level for programs.
func (l Level) MarshalText() ([]byte, error) {
	return []byte([]string{"fails", "guest", "unknown", "runner", "host"}[l]), nil
}

// A Meaning is what a change means for a guest.
type Meaning string

// The meanings. What each of them says is in explanations.
const (
	NoLongerStarts   Meaning = "no-longer-starts"
	StartsNow        Meaning = "starts-now"
	FailsOtherwise   Meaning = "fails-otherwise"
	HardwareAdded    Meaning = "hardware-added"
	HardwareRemoved  Meaning = "hardware-removed"
	HardwareReplaced         = Meaning(qemuopt.HardwareReplaced)
	HardwareFeature          = Meaning(qemuopt.HardwareFeature)
	Address                  = Meaning(qemuopt.Address)
	MAC                      = Meaning(qemuopt.MAC)
	DiskIdentity             = Meaning(qemuopt.DiskIdentity)
	DiskContents     Meaning = "disk-contents"
	BootOrder                = Meaning(qemuopt.BootOrder)
	Kernel                   = Meaning(qemuopt.Kernel)
	Chipset                  = Meaning(qemuopt.Chipset)
	MachineVersion   Meaning = "machine-version"
	CPUModel                 = Meaning(qemuopt.CPUModel)
	CPUTopology              = Meaning(qemuopt.CPUTopology)
	RAM                      = Meaning(qemuopt.RAM)
	Firmware                 = Meaning(qemuopt.Firmware)
	Variables        Meaning = "firmware-variables"
	TPM                      = Meaning(qemuopt.TPM)
	Identity                 = Meaning(qemuopt.Identity)
	Clock                    = Meaning(qemuopt.Clock)
	Network                  = Meaning(qemuopt.Network)
	Medium           Meaning = "medium"
	Emulator                 = Meaning(qemuopt.Emulator)
	Unknown          Meaning = "unknown"
	RuleAdded        Meaning = "rule-added"
	RuleRemoved      Meaning = "rule-removed"
	RuleChanged      Meaning = "rule-changed"
	Mishap                   = Meaning(qemuopt.Mishap)
	Isolation                = Meaning(qemuopt.Isolation)
	Viewers                  = Meaning(qemuopt.Viewers)
	HostOnly                 = Meaning(qemuopt.HostOnly)
)

// An Explanation is what is said about a meaning.
type Explanation struct {
	Level Level
	// Title is a few words, Effect what happens to the guest, Advice what to do.
	Title, Effect, Advice string
}

// Explain returns what is said about a meaning.
func (m Meaning) Explain() Explanation { return explanations[m] }

// Meanings returns all meanings, the gravest first, in the order of the tables.
func Meanings() []Meaning {
	return []Meaning{
		NoLongerStarts, StartsNow, FailsOtherwise,
		HardwareAdded, HardwareRemoved, HardwareReplaced, HardwareFeature, Address, MAC, DiskIdentity, DiskContents, BootOrder, Kernel,
		Chipset, MachineVersion, CPUModel, CPUTopology, RAM, Firmware, Variables, TPM, Identity, Clock, Network, Medium, Emulator,
		Unknown,
		RuleAdded, RuleRemoved, RuleChanged, Mishap,
		Isolation, Viewers, HostOnly,
	}
}

var explanations = map[Meaning]Explanation{
	NoLongerStarts: {
		Fails, "no longer starts",
		"The VM type makes no plan for this VM any more, or one that cannot work.",
		"If it is meant, tell those whose VMs are like this one before they update.",
	},
	StartsNow: {
		Fails, "starts now",
		"The VM type made no plan for this VM, and makes one now.",
		"Nothing, if it is meant.",
	},
	FailsOtherwise: {
		Fails, "fails with another message",
		"There was no plan, and there is none; the reason that is given is another one.",
		"Read the new message as somebody who meets it for the first time.",
	},
	HardwareAdded: {
		Guest, "new hardware",
		"The guest finds a device that was not there. Linux loads a driver; Windows installs one, and may ask for it.",
		"Make sure that all guests have the driver. Give the device an addr of its own, so that nothing else moves.",
	},
	HardwareRemoved: {
		Guest, "hardware is gone",
		"A device is not there any more. What the guest did with it fails, and a boot that waits for it takes long or stops.",
		"Find out who uses it in guests before you remove it.",
	},
	HardwareReplaced: {
		Guest, "another device in its place",
		"The guest finds another model and needs another driver. One that boots from a disk on it may not start: Windows stops with INACCESSIBLE_BOOT_DEVICE, Linux without the driver in its initramfs in an emergency shell.",
		"Install the driver in guests first, or leave the old device to VMs that exist.",
	},
	HardwareFeature: {
		Guest, "a device's features",
		"The guest sees the device with other features or limits, from its next start on. Drivers ask for them, so most guests cope.",
		"Try it with the oldest guest that has to run.",
	},
	Address: {
		Guest, "hardware moves",
		"The device is at another place of its bus. A Linux guest may call its network card (enp0s7) or disk by another name, so configuration that uses the name does not match; Windows installs the device anew, and its network settings are lost.",
		"Give the device the address that it had. Add new devices at free addresses, behind all others.",
	},
	MAC: {
		Guest, "a network card's MAC address",
		"The guest takes the card for another one: new name and settings with Windows and with Linux rules by MAC; DHCP gives another address.",
		"Leave MAC addresses as they are.",
	},
	DiskIdentity: {
		Guest, "a disk's identity",
		"Serial number, WWN or model are what /dev/disk/by-id and licences are made of. Mounts by id fail.",
		"Leave them as they are for VMs that exist.",
	},
	DiskContents: {
		Guest, "what is on a disk",
		"The disk is another file or device of the host, or is read in another format: other data, or none.",
		"Check that the data are where the VM looks for them, in this format. A raw disk read as qcow2, or the reverse, is lost at the first write.",
	},
	BootOrder: {
		Guest, "boot order",
		"The firmware tries devices in another order, so another system may start: an installer from a CD, for example. UEFI rewrites its boot entries.",
		"Look at all samples that have more than one device to boot from.",
	},
	Kernel: {
		Guest, "the kernel that boots",
		"The guest is started with another kernel, initramfs or command line.",
		"Make sure that the modules in the guest fit the kernel.",
	},
	Chipset: {
		Guest, "another machine",
		"Another chipset is another computer: all hardware moves, Windows must be activated again and may not start.",
		"Do not change it for VMs that exist; make a new VM type.",
	},
	MachineVersion: {
		Guest, "the version of the machine",
		"QEMU keeps the hardware of a machine version the same for ever; another version may have other defaults of devices. Windows may want to be activated again. Live migration between versions is impossible.",
		"VMs keep the version they were first started with (machines.txt) if the type names the alias, as q35.",
	},
	CPUModel: {
		Guest, "the CPU",
		"The guest sees another processor or other features of it. Programs built for a missing feature crash, features beyond may come with other mitigations and speed; Windows may want to be activated again.",
		"Going to a newer model is mostly safe; going back is not.",
	},
	CPUTopology: {
		Guest, "number or arrangement of CPUs",
		"Licences count sockets and cores, and a Windows client uses two sockets at most. The firmware's tables are made for the largest number of CPUs.",
		"Check licences.",
	},
	RAM: {
		Guest, "memory",
		"The guest has another amount or layout of memory. A guest that hibernated cannot be resumed.",
		"Compare the sizes with what the host has.",
	},
	Firmware: {
		Guest, "the firmware",
		"Other firmware, or the same with other features. What TPM measurements protect (BitLocker) asks for the recovery key.",
		"Keep recovery keys at hand. The code must fit the variables that the VM has.",
	},
	Variables: {
		Guest, "the firmware's variables",
		"Variables of another kind do not fit the firmware: the VM's own are put aside as FILE.KIND and made anew. Boot entries and enrolled keys are lost; an operating system that is only found by its entry does not start.",
		"Leave the kind to VMs that exist. The variables can be put back by hand.",
	},
	TPM: {
		Guest, "the TPM",
		"What is sealed to the TPM cannot be opened without it: disks of BitLocker and systemd-cryptenroll ask for the recovery key.",
		"Do not remove or move a TPM whose secrets are in use.",
	},
	Identity: {
		Guest, "the machine's identity",
		"UUID and SMBIOS texts are how management tools, licences and cloud-init know a machine. A new UUID can make cloud-init run as on a new machine.",
		"Leave them as they are for VMs that exist.",
	},
	Clock: {
		Guest, "clock and timers",
		"The guest's time may jump at its next start, by hours if local time and UTC change places, or drift another way.",
		"Windows expects local time unless it is told otherwise, Linux UTC.",
	},
	Network: {
		Guest, "what a network card is connected to",
		"The card stays as it is. The network behind it is another one: other addresses, other peers, other ports that lead to the guest.",
		"Check who reaches the guest, and whom it reaches.",
	},
	Medium: {
		Guest, "the medium in a CD drive",
		"Another medium, or none, is in the drive; the drive stays.",
		"Nothing: media come and go while the VM runs.",
	},
	Emulator: {
		Guest, "the program that runs the VM, or how",
		"Another QEMU or another accelerator. The hardware is the same if the machine version is, speed and CPU features may not be.",
		"Try it with the real QEMU: vmrunner vmtype check.",
	},
	Unknown: {
		Unclear, "seen by the guest, meaning unknown",
		"Nothing is known about this option or property here. Take it for visible to the guest.",
		"Look it up in QEMU's manual, and try it with a guest.",
	},
	RuleAdded: {
		Runner, "can change while the VM runs",
		"A change that awaited a restart is now made while the VM runs.",
		"Try it with a guest: what is plugged or unplugged needs its cooperation.",
	},
	RuleRemoved: {
		Runner, "no longer changes while the VM runs",
		"A change that was made at once now awaits a restart.",
		"Tell those who rely on it.",
	},
	RuleChanged: {
		Runner, "changes within other bounds",
		"What can change while the VM runs has other bounds. What is beyond awaits a restart.",
		"Tell those who rely on it, if it has become less.",
	},
	Mishap: {
		Runner, "what becomes of mishaps",
		"When the guest crashes, hangs or reboots, or the host cannot read or write, something else happens than before.",
		"Check that those who look after the VM expect it.",
	},
	Isolation: {
		Host, "how QEMU is confined",
		"What QEMU may do on the host changes. The guest sees nothing, unless it breaks out.",
		"Have it reviewed by who is responsible for the host.",
	},
	Viewers: {
		Host, "how the screen is reached",
		"Viewers connect to another place or in another way. The guest sees nothing.",
		"Tell those who look at the screen.",
	},
	HostOnly: {
		Host, "on the host only",
		"Paths, sockets, names and tuning within QEMU. The guest sees nothing.",
		"Nothing.",
	},
}
