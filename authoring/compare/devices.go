package compare

import "strings"

// A family is what devices are for. Names of drivers follow patterns, so most
// devices are known without being listed.
type family struct {
	noun string
	has  func(driver string) bool
}

var families = []family{
	{"a network card", isNetworkCard},
	{"a TPM", startsWith("tpm-")},
	{"a disk", is("virtio-blk-pci", "virtio-blk-device", "virtio-blk-ccw", "scsi-hd", "ide-hd", "nvme", "nvme-ns", "scsi-block", "vhost-user-blk-pci", "usb-storage")},
	{"a CD drive", is("ide-cd", "scsi-cd")},
	{"a disk controller", is("virtio-scsi-pci", "virtio-scsi-device", "lsi53c895a", "lsi", "megasas", "mptsas1068", "ahci", "ich9-ahci", "pvscsi", "vhost-scsi-pci")},
	{"a video card", is("VGA", "virtio-vga", "virtio-vga-gl", "virtio-gpu-pci", "virtio-gpu-gl-pci", "qxl-vga", "qxl", "vmware-svga", "cirrus-vga", "bochs-display", "ramfb", "secondary-vga", "virtio-gpu-device")},
	{"a sound device", is("intel-hda", "ich9-intel-hda", "AC97", "ES1370", "virtio-sound-pci", "sb16", "hda-duplex", "hda-micro", "hda-output", "usb-audio")},
	{"a USB controller", is("qemu-xhci", "nec-usb-xhci", "usb-ehci", "ich9-usb-ehci1", "piix3-usb-uhci", "pci-ohci")},
	{"a USB device", startsWith("usb-")},
	{"the memory balloon", startsWith("virtio-balloon")},
	{"a source of random numbers", startsWith("virtio-rng")},
	{"memory", is("pc-dimm", "nvdimm", "virtio-mem-pci", "virtio-pmem-pci")},
	{"a serial port", is("isa-serial", "pci-serial", "pci-serial-2x", "virtserialport", "virtconsole", "virtio-serial-pci", "virtio-serial-device", "spapr-vty")},
	{"an IOMMU", is("intel-iommu", "amd-iommu", "virtio-iommu-pci")},
	{"a PCI port or bridge", is("pcie-root-port", "ioh3420", "pci-bridge", "pcie-pci-bridge", "pxb-pcie", "x3130-upstream", "xio3130-downstream")},
	{"a watchdog", is("i6300esb", "ib700", "diag288", "itco")},
	{"the device that tells of panics", is("pvpanic", "pvpanic-pci")},
	{"a file system shared with the host", is("virtio-9p-pci", "vhost-user-fs-pci", "virtio-9p-device")},
	{"a socket to the host (vsock)", is("vhost-vsock-pci", "vhost-vsock-device", "vhost-user-vsock-pci")},
	{"a device of the host", is("vfio-pci", "usb-host", "vfio-ap", "vfio-ccw")},
	{"an input device", is("virtio-keyboard-pci", "virtio-mouse-pci", "virtio-tablet-pci", "virtio-input-host-pci")},
}

// nounOf says what a device is, or "".
func nounOf(driver string) string {
	for _, f := range families {
		if f.has(driver) {
			return f.noun
		}
	}
	return ""
}

func isNetworkCard(driver string) bool {
	return strings.HasPrefix(driver, "virtio-net") || strings.HasPrefix(driver, "e1000") || strings.HasPrefix(driver, "ne2k") ||
		strings.HasPrefix(driver, "i825") || is("rtl8139", "vmxnet3", "pcnet", "usb-net", "igb", "tulip", "sungem")(driver)
}

// isPCI tells whether a driver takes a place on a PCI bus. Other buses' devices
// have names with the bus in front.
func isPCI(driver string) bool {
	switch {
	case strings.HasSuffix(driver, "-pci"), strings.HasPrefix(driver, "vfio-pci"), strings.Contains(driver, "-pci-"):
		return true
	case isNetworkCard(driver):
		return !strings.HasPrefix(driver, "usb-") && !strings.HasSuffix(driver, "-device") && !strings.HasSuffix(driver, "-ccw") && driver != "ne2k_isa"
	}
	switch nounOf(driver) {
	case "a PCI port or bridge", "a USB controller", "a disk controller":
		return !strings.HasSuffix(driver, "-device")
	case "a video card":
		return driver != "ramfb" && driver != "virtio-gpu-device"
	}
	return is("nvme", "intel-hda", "ich9-intel-hda", "AC97", "ES1370", "i6300esb", "edu", "ivshmem-plain", "ivshmem-doorbell", "virtio-sound-pci", "pci-testdev")(driver)
}

// isMMIO tells whether a driver is of a virtio device without PCI, which gets one
// of the slots of its machine.
func isMMIO(driver string) bool {
	return strings.HasPrefix(driver, "virtio-") && strings.HasSuffix(driver, "-device")
}
