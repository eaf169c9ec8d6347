package qemuopt

import (
	"slices"
	"strings"
)

// A Device describes the devices with certain names.
type Device struct {
	// Names contains one or more names, separated by blanks. A * at the end of a name matches any text.
	Names string
	// Noun describes the devices: "a disk".
	Noun string
	// Stock is set if the stock types use the devices, or let the user choose them. A policy's lists include them
	// with the word "stock".
	Stock bool
}

// devices are searched in order; the first matching row counts.
var devices = []Device{
	{"virtio-net-*", aNetworkCard, true},
	{"e1000 e1000e rtl8139 pcnet", aNetworkCard, true},
	{"usb-net", aNetworkCard, true},
	{"ne2k_isa", aNetworkCard, false},
	{"virtio-net* e1000* ne2k* i825* vmxnet3 igb tulip sungem", aNetworkCard, false},

	{"tpm-crb tpm-tis tpm-tis-device", "a TPM", true},
	{"tpm-*", "a TPM", false},

	{"virtio-blk-*", "a disk", true},
	{"scsi-hd ide-hd usb-storage", "a disk", true},
	{"nvme nvme-ns scsi-block vhost-user-blk-pci", "a disk", false},
	{"ide-cd scsi-cd", "a CD drive", true},
	{"virtio-scsi-*", "a disk controller", true},
	{"lsi53c895a lsi megasas mptsas1068 ahci ich9-ahci pvscsi vhost-scsi-pci", "a disk controller", false},

	{"VGA cirrus-vga qxl-vga virtio-vga", "a video card", true},
	{"virtio-gpu-*", "a video card", true},
	{"virtio-vga-gl qxl vmware-svga bochs-display secondary-vga ramfb", "a video card", false},
	{"AC97 ich9-intel-hda", "a sound device", true},
	{"hda-duplex", "a sound device", true},
	{"intel-hda ES1370 virtio-sound-pci sb16 hda-micro hda-output usb-audio", "a sound device", false},

	{"qemu-xhci ich9-usb-ehci1", aUSBController, true},
	{"ich9-usb-uhci1 ich9-usb-uhci2 ich9-usb-uhci3", aUSBController, true},
	{"nec-usb-xhci usb-ehci piix3-usb-uhci pci-ohci", aUSBController, false},
	{"usb-kbd usb-redir usb-tablet", "a USB device", true},
	{"usb-host", "a device of the host", false},
	{"usb-*", "a USB device", false},

	{"virtio-balloon-*", "the memory balloon", true},
	{"virtio-rng-*", "a source of random numbers", true},
	{"virtio-mem-pci", "memory", true},
	{"pc-dimm nvdimm virtio-pmem-pci", "memory", false},
	{"isa-serial virtserialport virtio-serial-*", "a serial port", true},
	{"pci-serial pci-serial-2x virtconsole spapr-vty", "a serial port", false},
	{"intel-iommu", "an IOMMU", true},
	{"amd-iommu virtio-iommu-pci", "an IOMMU", false},
	{"pcie-root-port", aPort, true},
	{"ioh3420 pci-bridge pcie-pci-bridge pxb-pcie x3130-upstream xio3130-downstream", aPort, false},
	{"i6300esb", "a watchdog", true},
	{"ib700 diag288 itco", "a watchdog", false},
	{"pvpanic pvpanic-pci", "the device that reports panics", true},
	{"vmgenid", "the id of the guest's generation", true},
	{"isa-applesmc", "a Mac's system management controller", false},
	{"floppy", "a floppy drive", false},
	{"virtio-9p-pci vhost-user-fs-pci virtio-9p-device vhost-user-fs-device", "a file system shared with the host", false},
	{"vhost-vsock-pci vhost-vsock-device vhost-user-vsock-pci", "a socket to the host (vsock)", false},
	{"vfio-pci* vfio-ap vfio-ccw", "a device of the host", false},
	{"virtio-keyboard-pci virtio-mouse-pci virtio-tablet-pci virtio-input-host-pci", "an input device", false},

	// On a machine with PCI, these names mean the device with the suffix -pci.
	{"virtio-blk", "a disk", false},
	{"virtio-scsi", "a disk controller", false},
	{"virtio-serial", "a serial port", false},
	{"virtio-gpu", "a video card", false},
	{"virtio-balloon", "the memory balloon", false},
	{"virtio-rng", "a source of random numbers", false},

	// Without a noun: parts of a machine, for -global.
	{"ICH9-LPC PIIX4_PM cfi.pflash01 kvm-pit mc146818rtc virtio-mmio", "", true},
}

// Nouns of several rows.
const (
	aNetworkCard   = "a network card"
	aUSBController = "a USB controller"
	aPort          = "a PCI port or bridge"
)

// Devices returns all rows of devices.
func Devices() []Device { return slices.Clone(devices) }

// FindDevice returns the row of a device. The row is empty if the device is unknown.
func FindDevice(driver string) Device {
	for i := range devices {
		for names := devices[i].Names; names != ""; {
			var name string
			name, names, _ = strings.Cut(names, " ")
			if family, ok := strings.CutSuffix(name, "*"); name == driver || ok && strings.HasPrefix(driver, family) {
				return devices[i]
			}
		}
	}
	return Device{}
}

// IsNetworkCard reports whether a device is a network card.
func IsNetworkCard(driver string) bool { return FindDevice(driver).Noun == aNetworkCard }

// IsVirtioDisk reports whether a device is a virtio disk, which Linux names vda, vdb and so on.
func IsVirtioDisk(driver string) bool { return strings.HasPrefix(driver, "virtio-blk") }

// IsPCI reports whether a device uses a slot of a PCI bus.
func IsPCI(driver string) bool { return BusOf(driver) == PCI }

// StockDevices returns the names of the devices that the stock types use, some of them with * at the end.
func StockDevices() []string {
	var list []string
	for _, d := range devices {
		if d.Stock {
			list = append(list, strings.Fields(d.Names)...)
		}
	}
	return list
}

// deviceProperties are the properties of -device for all devices.
var deviceProperties = []Property{
	{"id append rtc type", Text, "", ""},
	{"addr bus masterbus", Text, Address, ""},
	{
		"multifunction port nr chassis slot unit lun scsi-id channel index iobase irq cad acpi-index firstport",
		Unknown, Address, "",
	},
	// The identity of a device of the host.
	{"host sysfsdev hostbus hostaddr hostport hostdevice vendorid productid", Unknown, HardwareReplaced, ""},

	{"drive", Text, "", BlockNode},
	{"netdev", Text, Network, Netdev},
	{"memdev", Text, RAM, Object},
	{"chardev", Text, HostOnly, Chardev},
	{"rng iothread cryptodev", Text, HostOnly, Object},
	{"audiodev", Text, HostOnly, AudioDev},
	{"tpmdev", Text, HostOnly, TPMDev},
	{"fsdev", Text, HostOnly, FSDev},

	{"mac", Text, MAC, ""},
	{"serial guid wwn model ver vendor product", Text, DiskIdentity, ""},
	{"device_id", Unknown, DiskIdentity, ""},
	{"bootindex", Unknown, BootOrder, ""},
	{"rombar", Text, BootOrder, ""},
	{"romfile", Reads, BootOrder, ""},
	{"werror rerror", Text, FailureAction, ""},
	{"requested-size block-size node size", Unknown, RAM, ""},
	{"vhost page-per-vq", Unknown, HostOnly, ""},
	// Guests find a port by its name, and a folder by its tag.
	{"name mount_tag disable-legacy disable-modern osk", Text, HardwareFeature, ""},
	{
		"write-cache num-queues num_queues queues mq vectors max_outputs max_hostmem xres yres edid ram_size " +
			"vram_size vgamem_mb vram64_size_mb logical_block_size physical_block_size discard_granularity " +
			"rotation_rate discard p2 p3 max_ports iommu_platform ats packed host_mtu speed duplex queue-size " +
			"rx_queue_size tx_queue_size deflate-on-oom free-page-reporting device-iotlb intremap eim " +
			"caching-mode aw-bits tag guest-cid hotplug removable",
		Unknown, HardwareFeature, "",
	},

	{"kernel initrd furbank frudatafile sdrfile", Reads, "", ""},
	{"file filename path evdev", Writes, "", ""},
	{"rootdir", WritesFolder, "", ""},
}
