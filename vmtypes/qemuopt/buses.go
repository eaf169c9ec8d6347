package qemuopt

import (
	"strings"
)

// A BusKind is a kind of bus, in the spelling of QEMU's -device help.
type BusKind string

// The kinds of buses.
const (
	PCI          BusKind = "PCI"
	ISA          BusKind = "ISA"
	USB          BusKind = "usb-bus"
	SCSI         BusKind = "SCSI"
	IDE          BusKind = "IDE"
	VirtioMMIO   BusKind = "virtio-bus"
	VirtioSerial BusKind = "virtio-serial-bus"
	HDA          BusKind = "HDA"
	// OtherBus means that the tables do not contain the bus, or that the device needs no bus.
	OtherBus BusKind = "other"
)

// busDevices are the devices by the kind of bus that they need, from the output of -device help of QEMU 7.2 for x86_64
// and aarch64, with its aliases (softmmu/qdev-monitor.c, qdev_alias_table). PCI devices with -pci at the end of their
// name, or with -pci- within it, have no entry.
var busDevices = []struct {
	kind  BusKind
	names string
}{
	{PCI, "AC97 AMDVI-PCI ES1370 VGA ac97 acpi-erst ahci am53c974 ati-vga bochs-display cirrus-vga ctucan_pci " +
		"cxl-downstream cxl-rp cxl-type3 cxl-upstream dc390 e1000 e1000-82540em e1000-82544gc e1000-82545em e1000e edu " +
		"es1370 i6300esb i82550 i82551 i82557a i82557b i82557c i82558a i82558b i82559a i82559b i82559c i82559er i82562 " +
		"i82801 i82801b11-bridge ich9-ahci ich9-intel-hda ich9-usb-ehci1 ich9-usb-ehci2 ich9-usb-uhci1 ich9-usb-uhci2 " +
		"ich9-usb-uhci3 ich9-usb-uhci4 ich9-usb-uhci5 ich9-usb-uhci6 igb intel-hda ioh3420 ivshmem-doorbell " +
		"ivshmem-plain kvaser_pci lsi lsi53c810 lsi53c895a megasas megasas-gen2 mioe3680_pci mptsas1068 ne2k_pci " +
		"nec-usb-xhci nvme pci-bridge pci-bridge-seat pci-ipmi-bt pci-ipmi-kcs pci-ohci pci-serial pci-serial-2x " +
		"pci-serial-4x pci-testdev pcie-pci-bridge pcie-root-port pcm3680_pci pcnet piix3-ide piix3-usb-uhci piix4-ide " +
		"piix4-usb-uhci pvrdma pvscsi pxb pxb-cxl pxb-pcie qemu-xhci qxl qxl-vga rocker rtl8139 secondary-vga sungem " +
		"tpci200 tulip usb-ehci vhost-user-vga virtio-9p virtio-balloon virtio-blk virtio-gpu virtio-gpu-gl " +
		"virtio-input-host virtio-iommu virtio-keyboard virtio-mouse virtio-net virtio-rng virtio-scsi virtio-serial " +
		"virtio-tablet virtio-vga virtio-vga-gl vmware-svga vmxnet3 x-pci-proxy-dev x3130-upstream xio3130-downstream"},
	{ISA, "adlib cs4231a gus hyperv-testdev i8042 ib700 isa-applesmc isa-cirrus-vga isa-debug-exit isa-debugcon isa-fdc " +
		"isa-ide isa-ipmi-bt isa-ipmi-kcs isa-parallel isa-serial isa-vga ne2k_isa pc-testdev pvpanic sb16 sga tpm-tis " +
		"vmmouse"},
	{USB, "u2f-passthru usb-audio usb-bot usb-braille usb-ccid usb-host usb-hub usb-kbd usb-mouse usb-mtp usb-net " +
		"usb-redir usb-serial usb-storage usb-tablet usb-uas usb-wacom-tablet"},
	{SCSI, "scsi-block scsi-cd scsi-generic scsi-hd"},
	{IDE, "ide-cd ide-hd"},
	{VirtioMMIO, "vhost-scsi vhost-user-blk vhost-user-fs-device vhost-user-gpio-device vhost-user-i2c-device " +
		"vhost-user-rng-device vhost-user-scsi vhost-user-vsock-device vhost-vsock-device virtio-9p-device " +
		"virtio-balloon-device virtio-blk-device virtio-crypto-device virtio-gpu-device virtio-input-host-device " +
		"virtio-iommu-device virtio-keyboard-device virtio-mouse-device virtio-net-device virtio-rng-device " +
		"virtio-scsi-device virtio-serial-device virtio-tablet-device"},
	{VirtioSerial, "virtconsole virtserialport"},
	{HDA, "hda-duplex hda-micro hda-output"},
	{OtherBus, "amd-iommu ccid-card-emulated ccid-card-passthru floppy guest-loader intel-iommu ipmi-bmc-extern " +
		"ipmi-bmc-sim loader nvdimm nvme-ns nvme-subsys pc-dimm ramfb smbus-ipmi tpm-crb tpm-tis-device vmcoreinfo " +
		"vmgenid"},
}

// A Controller describes devices with buses behind them.
type Controller struct {
	// Names contains one or more names of devices, separated by blanks.
	Names string
	// Kind is the kind of the buses.
	Kind BusKind
	// Buses is the number of buses.
	Buses int
	// Bridge is set if the bus has the id of its device as its name. The name of another bus is the id, a dot and the
	// number of the bus (hw/core/bus.c, qbus_init_internal).
	Bridge bool
	// Host is set for a bridge next to the machine's own, which changes the default bus of devices. Slotted is set for
	// a port with a unique combination of chassis and slot (hw/pci/pcie.c, pcie_chassis_add_slot).
	Host, Slotted bool
	// Places is the number of places of each bus, or 0 if it is unknown or unlimited. Counts are properties of the
	// device that contain the number instead; the largest number applies.
	Places int
	Counts string
}

// controllers are from hw/pci/pci_bridge.c, from the controllers in hw/ide, hw/scsi and hw/usb, and from
// hw/char/virtio-serial-bus.c in QEMU.
var controllers = []Controller{
	{Names: "pxb pxb-cxl pxb-pcie", Kind: PCI, Buses: 1, Bridge: true, Host: true},
	{
		Names: "cxl-downstream cxl-rp ioh3420 pcie-root-port xio3130-downstream",
		Kind:  PCI, Buses: 1, Bridge: true, Slotted: true,
	},
	{
		Names: "cxl-upstream i82801b11-bridge pci-bridge pci-bridge-seat pcie-pci-bridge x3130-upstream",
		Kind:  PCI, Buses: 1, Bridge: true,
	},
	{Names: "nec-usb-xhci qemu-xhci", Kind: USB, Buses: 1, Places: 4, Counts: "p2 p3"},
	{Names: "ich9-usb-ehci1 ich9-usb-ehci2 usb-ehci", Kind: USB, Buses: 1, Places: 6},
	{
		Names: "ich9-usb-uhci1 ich9-usb-uhci2 ich9-usb-uhci3 ich9-usb-uhci4 ich9-usb-uhci5 ich9-usb-uhci6 piix3-usb-uhci " +
			"piix4-usb-uhci",
		Kind: USB, Buses: 1, Places: 2,
	},
	{Names: "pci-ohci", Kind: USB, Buses: 1, Places: 3, Counts: "num-ports"},
	{Names: "ahci ich9-ahci", Kind: IDE, Buses: 6, Places: 1},
	{Names: "piix3-ide piix4-ide", Kind: IDE, Buses: 2, Places: 2},
	{Names: "isa-ide", Kind: IDE, Buses: 1, Places: 2},
	{
		Names: "am53c974 dc390 lsi lsi53c810 lsi53c895a megasas megasas-gen2 mptsas1068 pvscsi usb-bot usb-storage usb-uas " +
			"virtio-scsi virtio-scsi-device virtio-scsi-pci virtio-scsi-pci-non-transitional virtio-scsi-pci-transitional",
		Kind: SCSI, Buses: 1,
	},
	{
		Names: "virtio-serial virtio-serial-device virtio-serial-pci virtio-serial-pci-non-transitional " +
			"virtio-serial-pci-transitional",
		Kind: VirtioSerial, Buses: 1, Places: 31, Counts: "max_ports",
	},
	{Names: "ich9-intel-hda intel-hda", Kind: HDA, Buses: 1},
}

// A Machine describes the buses and the built-in devices of machine types, in QEMU 7.2 to 10.
type Machine struct {
	// Types contains one or more names of machine types, separated by blanks. A * at the end of a name matches any
	// text.
	Types string
	// Guests are the architectures of the row, separated by blanks, in QEMU's spelling. It is empty if only one
	// architecture has the machine types.
	Guests string
	Buses  []MachineBus
	Slots  []MachineSlot
}

// A MachineBus is a bus of a machine, or several buses of the same kind.
type MachineBus struct {
	Kind BusKind
	// Name ends with a dot and the number of the bus. There are buses with the numbers First to Last.
	Name        string
	First, Last int
	// Places is the number of places of the bus, as in Controller.
	Places int
	// If is the switch of the machine that adds the bus; Unless contains switches, separated by blanks, that remove the
	// bus if they are off.
	If, Unless string
}

// A MachineSlot is a place on the machine's first PCI bus with a built-in device.
type MachineSlot struct {
	Slot, Function int
	// Single is set if the other functions of the slot must be free.
	Single bool
	// If and Unless are switches, as in MachineBus.
	If, Unless string
}

// machines are from the output of "info qtree" with -nodefaults.
var machines = []Machine{
	{
		Types: "q35 pc-q35-*",
		Buses: []MachineBus{
			{Kind: PCI, Name: "pcie."},
			{Kind: ISA, Name: "isa."},
			{Kind: IDE, Name: "ide.", Last: 5, Places: 1, Unless: "sata"},
			{Kind: USB, Name: "usb-bus.", Places: 6, If: "usb"},
		},
		Slots: []MachineSlot{
			{Single: true},
			{Slot: 0x1d, If: "usb"},
			{Slot: 0x1d, Function: 1, If: "usb"},
			{Slot: 0x1d, Function: 2, If: "usb"},
			{Slot: 0x1d, Function: 7, If: "usb"},
			{Slot: 0x1f},
			{Slot: 0x1f, Function: 2, Unless: "sata"},
			{Slot: 0x1f, Function: 3, Unless: "smbus"},
		},
	},
	{
		Types: "pc pc-i440fx-* pc-0.* pc-1.*",
		Buses: []MachineBus{
			{Kind: PCI, Name: "pci."},
			{Kind: ISA, Name: "isa."},
			{Kind: IDE, Name: "ide.", Last: 1, Places: 2},
			{Kind: USB, Name: "usb-bus.", Places: 2, If: "usb"},
		},
		Slots: []MachineSlot{
			{Single: true},
			{Slot: 1},
			{Slot: 1, Function: 1},
			{Slot: 1, Function: 2, If: "usb"},
			{Slot: 1, Function: 3, Unless: "acpi"},
		},
	},
	{
		Types: "isapc",
		Buses: []MachineBus{{Kind: ISA, Name: "isa."}, {Kind: IDE, Name: "ide.", Last: 1, Places: 2}},
	},
	{
		Types: "microvm",
		Buses: []MachineBus{
			{Kind: PCI, Name: "pcie.", If: "pcie"},
			{Kind: ISA, Name: "isa."},
			{Kind: USB, Name: "usb-bus.", If: "usb"},
			{Kind: VirtioMMIO, Name: "virtio-mmio-bus.", Last: 7, Places: 1},
			{Kind: VirtioMMIO, Name: "virtio-mmio-bus.", First: 8, Last: 23, Places: 1, Unless: "acpi ioapic2"},
		},
		Slots: []MachineSlot{{Single: true, If: "pcie"}},
	},
	{
		Types: "virt virt-*", Guests: "aarch64 arm",
		Buses: []MachineBus{
			{Kind: PCI, Name: "pcie."},
			{Kind: VirtioMMIO, Name: "virtio-mmio-bus.", Last: 31, Places: 1},
		},
		Slots: []MachineSlot{{Single: true}},
	},
}

// FindMachine returns the row of a machine type for an architecture, or nil. The architecture may be "".
func FindMachine(machineType, architecture string) *Machine {
	for i := range machines {
		m := &machines[i]
		for _, name := range strings.Fields(m.Types) {
			if matchesName(name, machineType) && (m.Guests == "" || hasWord(m.Guests, architecture)) {
				return m
			}
		}
	}
	return nil
}

// BusOf returns the kind of bus that a device needs; "" if the device is unknown.
func BusOf(driver string) BusKind {
	kind, known := kindsOfDevices[driver]
	switch {
	case known:
		return kind
	case strings.HasSuffix(driver, "-device"), strings.HasSuffix(driver, "-ccw"):
		return ""
	case strings.HasSuffix(driver, "-pci"), strings.Contains(driver, "-pci-"):
		return PCI
	}
	return ""
}

// ControllerOf returns the row of a device with buses behind it, or nil.
func ControllerOf(driver string) *Controller { return controllersOfDevices[driver] }

// kindsOfDevices contains the rows of busDevices by the name of the device.
var kindsOfDevices = indexKinds()

func indexKinds() map[string]BusKind {
	kinds := make(map[string]BusKind, 256)
	for i := range busDevices {
		for _, name := range strings.Fields(busDevices[i].names) {
			kinds[name] = busDevices[i].kind
		}
	}
	return kinds
}

// controllersOfDevices contains the rows of controllers by the name of the device.
var controllersOfDevices = indexControllers()

func indexControllers() map[string]*Controller {
	rows := make(map[string]*Controller, 64)
	for i := range controllers {
		for _, name := range strings.Fields(controllers[i].Names) {
			rows[name] = &controllers[i]
		}
	}
	return rows
}
