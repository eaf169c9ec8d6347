package qemuopt

// audioProperties are the properties of audio backends without a sound device of the host.
var audioProperties = []Property{
	{"id", Text, HostOnly, ""},
	{"in.* out.*", Unknown, HostOnly, ""}, // rates and sizes
}

var idOnly = []Property{{"id", Text, HostOnly, ""}}

var memoryProperties = []Property{
	{"id policy host-nodes host-nodes.*", Text, HostOnly, ""},
	{"size", Unknown, RAM, ""},
}

// machineProperties are the properties of -machine for all machines.
var machineProperties = []Property{
	{"type", Text, Chipset, ""},
	{"accel", Text, Emulator, ""},
	{"pflash0 pflash1", Text, Firmware, BlockNode},
	{"firmware", Reads, Firmware, ""},
	{"smm x-smm", Unknown, Firmware, ""},
	{"kernel dtb", Reads, Kernel, ""},
	{"initrd", ReadsEach, Kernel, ""},
	{"append", Text, Kernel, ""},
	{"auto-kernel-cmdline", Unknown, Kernel, ""},
	{"x-option-roms", Unknown, BootOrder, ""},
	{"memory-backend", Text, RAM, Object},
	{"hmat nvdimm max-ram-below-4g highmem", Unknown, RAM, ""},
	{"memory-encryption confidential-guest-support", Text, HardwareFeature, Object},
	{"smp smp.*", Unknown, CPUTopology, ""},
	{"rtc pit", Text, Clock, ""},
	{"hpet", Unknown, Clock, ""},
	{"gic-version kernel-irqchip pic", Text, HardwareFeature, ""},
	{
		"usb vmport smbus sata i8042 kernel_irqchip acpi iommu virtualization secure its mte graphics pcie " +
			"isa-serial default-bus-bypass-iommu default_bus_bypass_iommu ioapic2 isa-irq",
		Unknown, HardwareFeature, "",
	},
	{"audiodev", Text, HostOnly, AudioDev},
	{"pcspk-audiodev", Unknown, HostOnly, AudioDev},
	{"dumpdtb", Writes, HostOnly, ""},
	{"mem-merge dump-guest-core suppress-vmdesc", Unknown, HostOnly, ""},
}

// globalProperties are the properties of -global that differ from -device: their meaning for all devices of a
// kind is different, or their device is not created by an option.
var globalProperties = []Property{
	{"lost_tick_policy", Text, Clock, ""},
	{"secure", Unknown, Firmware, ""},
	{"disable_s3 disable_s4 acpi-root-pci-hotplug force-legacy", Unknown, HardwareFeature, ""},
	{"acpi-pci-hotplug-with-bridge-support", Unknown, Address, ""},
	{"noreboot", Unknown, FailureAction, ""},
}

// nodeProperties are the properties of a block node with any driver.
var nodeProperties = []Property{
	{"node-name driver on-error encrypt.format", Text, "", ""},
	{"file backing", Text, "", BlockNode},
	{"image", Unknown, "", BlockNode},
	{"throttle-group key-secret encrypt.key-secret", Text, "", Object},
	{"aio discard detect-zeroes", Text, HostOnly, ""},
	{"cache.direct cache.no-flush l2-cache-size cache-size auto-read-only locking", Unknown, HostOnly, ""},
	{"read-only", Unknown, HardwareFeature, ""},
}

// fileProperties are the additional properties of a node with its data on the host.
var fileProperties = []Property{{"filename", Opens, "", ""}}

// driveProperties are the properties of -drive. Properties with the prefix "file." belong to the node below.
var driveProperties = []Property{
	{"file", Opens, "", ""},
	{"id if media format throttling.group copy-on-read", Text, "", ""},
	{"throttling.*", Unknown, HostOnly, ""},
	{"aio cache discard detect-zeroes", Text, HostOnly, ""},
	{"cache.direct cache.no-flush l2-cache-size cache-size auto-read-only locking", Unknown, HostOnly, ""},
	{"read-only readonly", Unknown, HardwareFeature, ""},
	{"serial model", Text, DiskIdentity, ""},
	{"werror rerror", Text, FailureAction, ""},
}
