package policy

import (
	"slices"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// stockWords returns the meaning of "stock" in a list of a rule. For QEMU's options, these are all rows in the
// table of options that the stock types use.
func stockWords(list string) []string {
	flags, backends := qemuopt.Stock()
	switch list {
	case "flags":
		return flags
	case "backends":
		return backends
	case "devices":
		return qemuopt.StockDevices()
	}
	return strings.Fields(map[string]string{
		"read": "/usr/share/OVMF/** /usr/share/AAVMF/** /usr/share/edk2/** /usr/share/edk2-ovmf/** " +
			"/usr/share/qemu/** /usr/local/share/qemu/** /dev/urandom",
		"programs": "/usr/bin/qemu-system-* /usr/local/bin/qemu-system-* /usr/libexec/qemu-kvm",
		"helpers":  "/usr/bin/swtpm /usr/local/bin/swtpm /usr/bin/passt /usr/local/bin/passt",
		"networks": "masquerade passt user",
		"listen":   "127.0.0.1:* [::1]:*",
		"options": "diskBus hostCaches hotplugPorts hugePages hyperv iommu localTime networkCard numaNodes panic pcie " +
			"secureBoot sharedMemory smt sound tpm usb video virtio virtioDrivers vsock vsockCid watchdog",
	}[list])
}

// ofAnyDevice returns the properties that -global accepts: its own, and the device properties that name a file to
// read. All other properties may only be numbers and switches.
func ofAnyDevice() *qemuopt.Option {
	reads := func(p qemuopt.Property) bool { return p.Host == qemuopt.Reads || p.Host == qemuopt.ReadsFolder }
	row := *qemuopt.Flag("-global")
	for _, p := range qemuopt.Flag("-device").Properties {
		if reads(p) {
			row.Properties = append(slices.Clone(row.Properties), p)
		}
	}
	return &row
}
