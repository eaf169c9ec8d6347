package compare

import "vmop/vmtypes/qemuopt"

// A Level describes who notices a change. The first level is the most severe.
type Level int

// The levels.
const (
	// Fails means that there is no longer a plan, or that there is a plan now.
	Fails Level = iota
	// Guest means that the guest notices the change.
	Guest
	// Unclear means that the guest may notice the change, and its meaning is unknown.
	Unclear
	// Runner means changes of rules, and of the reaction to failures.
	Runner
	// Host means that the guest does not notice the change.
	Host
)

// Levels returns all levels, most severe first.
func Levels() []Level { return []Level{Fails, Guest, Unclear, Runner, Host} }

// String returns the heading for changes of this level.
func (l Level) String() string {
	return map[Level]string{
		Fails: "Starting", Guest: "The guest sees", Unclear: "Meaning unknown", Runner: "While the VM is running",
		Host: "On the host only",
	}[l]
}

// MarshalText returns the name of a level for programs.
func (l Level) MarshalText() ([]byte, error) {
	return []byte([]string{"fails", "guest", "unknown", "runner", "host"}[l]), nil
}

// A Meaning classifies a change by its effect on a guest.
type Meaning string

// The meanings. Their texts are in explanations.
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
	FailureAction            = Meaning(qemuopt.FailureAction)
	Isolation                = Meaning(qemuopt.Isolation)
	Viewers                  = Meaning(qemuopt.Viewers)
	HostOnly                 = Meaning(qemuopt.HostOnly)
)

// An Explanation explains a meaning to authors.
type Explanation struct {
	Level Level
	// Title is a short name. Effect is what happens to the guest. Advice is what to do.
	Title, Effect, Advice string
}

// Explain returns the explanation of a meaning.
func (m Meaning) Explain() Explanation { return explanations[m] }

// Meanings returns all meanings, most severe first, in the order of the tables.
func Meanings() []Meaning {
	return []Meaning{
		NoLongerStarts, StartsNow, FailsOtherwise,
		HardwareAdded, HardwareRemoved, HardwareReplaced, HardwareFeature, Address, MAC, DiskIdentity, DiskContents,
		BootOrder, Kernel,
		Chipset, MachineVersion, CPUModel, CPUTopology, RAM, Firmware, Variables, TPM, Identity, Clock, Network, Medium,
		Emulator,
		Unknown,
		RuleAdded, RuleRemoved, RuleChanged, FailureAction,
		Isolation, Viewers, HostOnly,
	}
}

var explanations = map[Meaning]Explanation{
	NoLongerStarts: {
		Fails, "no longer starts",
		"The VM type no longer has a plan for this VM, or one that cannot work.",
		"If intended, announce it to owners of such VMs before they update.",
	},
	StartsNow: {
		Fails, "starts now",
		"The VM type had no plan for this VM before.",
		"Nothing, if intended.",
	},
	FailsOtherwise: {
		Fails, "fails with a different message",
		"There is still no plan; the reason has changed.",
		"Read the new message as a user who sees it for the first time.",
	},
	HardwareAdded: {
		Guest, "new hardware",
		"The guest finds a new device. Linux loads a driver; Windows installs one, or asks for it.",
		"Make sure that all guests have the driver. Give the device a fixed addr, so that no other device moves.",
	},
	HardwareRemoved: {
		Guest, "hardware removed",
		"A device was removed. Guest software that uses it fails, and a boot that waits for it is delayed or stops.",
		"Find out what uses it in guests before you remove it.",
	},
	HardwareReplaced: {
		Guest, "replaced by another device",
		"The guest finds a different model and needs a different driver. A guest that boots from a disk on it may " +
			"not start: Windows stops with INACCESSIBLE_BOOT_DEVICE, Linux in an emergency shell if the driver is " +
			"missing in its initramfs.",
		"Install the driver in guests first, or keep the old device for existing VMs.",
	},
	HardwareFeature: {
		Guest, "a device's features",
		"The guest sees the device with different features or limits from its next start on. Drivers negotiate them, " +
			"so most guests cope.",
		"Test it with the oldest supported guest.",
	},
	Address: {
		Guest, "hardware moves",
		"The device has a different address on its bus. In a Linux guest the name of the network card (enp0s7) or " +
			"disk may change, so configuration that uses the name no longer matches; Windows installs the device " +
			"again, and its network settings are lost.",
		"Give the device its old address. Add new devices at free addresses, after all others.",
	},
	MAC: {
		Guest, "a network card's MAC address",
		"The guest treats it as a different card: new name and settings on Windows and with MAC-based rules on " +
			"Linux; DHCP assigns a different address.",
		"Keep MAC addresses unchanged.",
	},
	DiskIdentity: {
		Guest, "a disk's identity",
		"/dev/disk/by-id and licences are derived from serial number, WWN and model. Mounts by id fail.",
		"Keep them unchanged for existing VMs.",
	},
	DiskContents: {
		Guest, "the contents of a disk",
		"The disk is a different file or device of the host, or is read in a different format: other data, or none.",
		"Check that the data are where the VM looks for them, in this format. The first write destroys a raw disk " +
			"that is used as qcow2, or the reverse.",
	},
	BootOrder: {
		Guest, "boot order",
		"The firmware tries devices in a different order, so a different system may start: an installer from a CD, " +
			"for example. UEFI rewrites its boot entries.",
		"Check all samples with more than one bootable device.",
	},
	Kernel: {
		Guest, "the kernel that boots",
		"The guest boots with a different kernel, initramfs or command line.",
		"Make sure that the modules in the guest match the kernel.",
	},
	Chipset: {
		Guest, "a different machine",
		"A different chipset is a different computer: all hardware moves, Windows must be activated again and may " +
			"not start.",
		"Do not change it for existing VMs; create a new VM type.",
	},
	MachineVersion: {
		Guest, "the version of the machine",
		"QEMU never changes the hardware of a machine version; a different version may have different device " +
			"defaults. Windows may require activation again. Live migration between versions is impossible.",
		"VMs keep the version that they were first started with (machines.txt) if the type uses the alias, such " +
			"as q35.",
	},
	CPUModel: {
		Guest, "the CPU",
		"The guest sees a different processor or different features. Programs built for a missing feature crash; " +
			"additional features may change mitigations and speed; Windows may require activation again.",
		"Changing to a newer model is usually safe; changing back is not.",
	},
	CPUTopology: {
		Guest, "number or topology of CPUs",
		"Licences count sockets and cores, and a Windows client uses at most two sockets. The firmware's tables are " +
			"built for the maximum number of CPUs.",
		"Check licences.",
	},
	RAM: {
		Guest, "memory",
		"The guest has a different amount or layout of memory. A hibernated guest cannot be resumed.",
		"Compare the sizes with what the host has.",
	},
	Firmware: {
		Guest, "the firmware",
		"Different firmware, or the same with different features. Software protected by TPM measurements (BitLocker) " +
			"asks for the recovery key.",
		"Keep recovery keys at hand. The code must match the variables that the VM has.",
	},
	Variables: {
		Guest, "the firmware's variables",
		"Variables of a different kind do not match the firmware: the VM's variables are kept as FILE.KIND, and new variables are " +
			"created. Boot entries and enrolled keys are lost; an operating system that is found only by its entry " +
			"does not start.",
		"Keep the kind for existing VMs. The variables can be restored manually.",
	},
	TPM: {
		Guest, "the TPM",
		"Secrets sealed to the TPM cannot be unsealed without it: disks of BitLocker and systemd-cryptenroll ask for " +
			"the recovery key.",
		"Do not remove or move a TPM with secrets that are in use.",
	},
	Identity: {
		Guest, "the machine's identity",
		"Management tools, licences and cloud-init identify a machine by its UUID and SMBIOS strings. A new UUID can " +
			"make cloud-init run as on a new machine.",
		"Keep them unchanged for existing VMs.",
	},
	Clock: {
		Guest, "clock and timers",
		"The guest's time may jump at its next start, by hours if local time and UTC are exchanged, or drift " +
			"differently.",
		"Windows expects local time by default, Linux UTC.",
	},
	Network: {
		Guest, "what a network card is connected to",
		"The card is unchanged, but it is connected to a different network: other addresses, other peers, other " +
			"forwarded ports.",
		"Check what can reach the guest, and what it can reach.",
	},
	Medium: {
		Guest, "the medium in a CD drive",
		"A different medium, or none, is in the drive; the drive is unchanged.",
		"Nothing: media can be changed while the VM is running.",
	},
	Emulator: {
		Guest, "the program that runs the VM, or how",
		"A different QEMU or accelerator. The hardware is the same if the machine version is; speed and CPU " +
			"features may differ.",
		"Try it with the real QEMU: vmrunner vmtype check.",
	},
	Unknown: {
		Unclear, "seen by the guest, meaning unknown",
		"This option or property is not in the tables. Assume that it is visible to the guest.",
		"Look it up in QEMU's manual, and test it with a guest.",
	},
	RuleAdded: {
		Runner, "can change while the VM is running",
		"A change that required a restart is now applied while the VM is running.",
		"Test it with a guest: plugging and unplugging need its cooperation.",
	},
	RuleRemoved: {
		Runner, "no longer changes while the VM is running",
		"A change that was applied immediately now requires a restart.",
		"Announce it to users who rely on it.",
	},
	RuleChanged: {
		Runner, "changes within different bounds",
		"The bounds of what can change while the VM is running are different. Changes beyond them require a restart.",
		"If the range is smaller, announce it to users who rely on it.",
	},
	FailureAction: {
		Runner, "the reaction to failures",
		"The reaction to a guest that crashes, hangs or reboots, or to an I/O error of the host, is different.",
		"Check that the VM's administrators expect it.",
	},
	Isolation: {
		Host, "how QEMU is confined",
		"What QEMU may do on the host changes. The guest sees nothing, unless it breaks out.",
		"Have it reviewed by the administrator of the host.",
	},
	Viewers: {
		Host, "access to the screen",
		"Viewers connect to a different address or in a different way. The guest sees nothing.",
		"Announce it to users of the screen.",
	},
	HostOnly: {
		Host, "on the host only",
		"Paths, sockets, names and tuning within QEMU. The guest sees nothing.",
		"Nothing.",
	},
}
