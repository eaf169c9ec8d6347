package compare

import (
	"strings"

	"vmop/vmtypes/plan"
)

// deviceProperties say what properties of -device mean.
var deviceProperties = map[string]Meaning{
	"addr": Address, "bus": Address, "multifunction": Address, "port": Address, "nr": Address, "chassis": Address, "slot": Address,
	"unit": Address, "lun": Address, "scsi-id": Address, "channel": Address, "index": Address, "iobase": Address, "irq": Address, "cad": Address,
	"acpi-index": Address, "masterbus": Address, "firstport": Address,
	"host": HardwareReplaced, "sysfsdev": HardwareReplaced, "hostbus": HardwareReplaced, "hostaddr": HardwareReplaced, // of the host's devices
	"hostport": HardwareReplaced, "hostdevice": HardwareReplaced, "vendorid": HardwareReplaced, "productid": HardwareReplaced,
	"mac":    MAC,
	"serial": DiskIdentity, "wwn": DiskIdentity, "model": DiskIdentity, "ver": DiskIdentity, "vendor": DiskIdentity,
	"product": DiskIdentity, "device_id": DiskIdentity,
	"bootindex": BootOrder, "romfile": BootOrder, "rombar": BootOrder,
	"werror": Mishap, "rerror": Mishap,
	"chardev": HostOnly, "rng": HostOnly, "iothread": HostOnly, "audiodev": HostOnly, "tpmdev": HostOnly, "vhost": HostOnly,
	"page-per-vq": HostOnly, "write-cache": HardwareFeature,
	"memdev": RAM, "requested-size": RAM, "block-size": RAM, "node": RAM, "size": RAM,
	"name":       HardwareFeature, // of a port: how guests find it
	"num-queues": HardwareFeature, "num_queues": HardwareFeature, "queues": HardwareFeature, "mq": HardwareFeature, "vectors": HardwareFeature,
	"max_outputs": HardwareFeature, "max_hostmem": HardwareFeature, "xres": HardwareFeature, "yres": HardwareFeature, "edid": HardwareFeature,
	"ram_size": HardwareFeature, "vram_size": HardwareFeature, "vgamem_mb": HardwareFeature, "vram64_size_mb": HardwareFeature,
	"logical_block_size": HardwareFeature, "physical_block_size": HardwareFeature, "discard_granularity": HardwareFeature,
	"rotation_rate": HardwareFeature, "discard": HardwareFeature, "p2": HardwareFeature, "p3": HardwareFeature, "max_ports": HardwareFeature,
	"disable-legacy": HardwareFeature, "disable-modern": HardwareFeature, "iommu_platform": HardwareFeature, "ats": HardwareFeature,
	"packed": HardwareFeature, "host_mtu": HardwareFeature, "speed": HardwareFeature, "duplex": HardwareFeature, "queue-size": HardwareFeature,
	"rx_queue_size": HardwareFeature, "tx_queue_size": HardwareFeature, "deflate-on-oom": HardwareFeature, "free-page-reporting": HardwareFeature,
	"device-iotlb": HardwareFeature, "intremap": HardwareFeature, "eim": HardwareFeature, "caching-mode": HardwareFeature,
	"aw-bits": HardwareFeature, "tag": HardwareFeature, "guest-cid": HardwareFeature, "hotplug": HardwareFeature,
}

// machineProperties say what properties of -machine mean.
var machineProperties = map[string]Meaning{
	"pflash0": Firmware, "pflash1": Firmware, "smm": Firmware, "firmware": Firmware, "x-smm": Firmware,
	"memory-backend": RAM, "hmat": RAM, "nvdimm": RAM, "max-ram-below-4g": RAM, "mem-merge": HostOnly,
	"accel": Emulator, "hpet": Clock, "rtc": Clock, "pit": Clock,
	"usb": HardwareFeature, "vmport": HardwareFeature, "smbus": HardwareFeature, "sata": HardwareFeature, "i8042": HardwareFeature,
	"pic": HardwareFeature, "kernel-irqchip": HardwareFeature, "kernel_irqchip": HardwareFeature, "acpi": HardwareFeature, "gic-version": HardwareFeature,
	"iommu": HardwareFeature, "virtualization": HardwareFeature, "secure": HardwareFeature, "its": HardwareFeature, "mte": HardwareFeature,
	"dump-guest-core": HostOnly, "graphics": HardwareFeature, "pcie": HardwareFeature, "isa-serial": HardwareFeature, "x-option-roms": BootOrder,
	"suppress-vmdesc": HostOnly, "highmem": RAM, "default-bus-bypass-iommu": HardwareFeature, "default_bus_bypass_iommu": HardwareFeature,
	"auto-kernel-cmdline": Kernel, "smp": CPUTopology,
	"ioapic2": HardwareFeature, "isa-irq": HardwareFeature, "pcspk-audiodev": HostOnly,
}

// flags say what options mean that are neither devices nor their backends.
var flags = map[string]Meaning{
	"-accel": Emulator, "-enable-kvm": Emulator, "-cpu": CPUModel, "-smp": CPUTopology, "-m": RAM, "-numa": RAM, "-mem-path": HostOnly,
	"-mem-prealloc": HostOnly, "-overcommit": HostOnly,
	"-boot": BootOrder, "-kernel": Kernel, "-initrd": Kernel, "-append": Kernel, "-dtb": Kernel, "-shim": Kernel,
	"-bios": Firmware, "-pflash": Firmware, "-L": Firmware, "-uuid": Identity, "-smbios": Identity, "-rtc": Clock,
	"-icount": Clock, "-name": HostOnly, "-msg": HostOnly, "-no-user-config": HostOnly, "-D": HostOnly, "-d": HostOnly, "-trace": HostOnly,
	"-display": Viewers, "-vnc": Viewers, "-spice": Viewers, "-k": Viewers, "-full-screen": Viewers,
	"-sandbox": Isolation, "-runas": Isolation, "-chroot": Isolation, "-run-with": Isolation,
	"-action": Mishap, "-watchdog-action": Mishap, "-no-reboot": Mishap, "-no-shutdown": Mishap,
	"-serial": HardwareFeature, "-parallel": HardwareFeature, "-vga": HardwareReplaced,
	"-audiodev": HostOnly, "-tpmdev": TPM, "-netdev": Network, "-chardev": HostOnly, "-fsdev": HostOnly, "-add-fd": HostOnly,
}

// globals say what properties mean that -global sets for all devices of a kind.
var globals = map[string]Meaning{
	"kvm-pit.lost_tick_policy": Clock, "mc146818rtc.lost_tick_policy": Clock, "cfi.pflash01.secure": Firmware,
	"ICH9-LPC.disable_s3": HardwareFeature, "ICH9-LPC.disable_s4": HardwareFeature,
	"PIIX4_PM.disable_s3": HardwareFeature, "PIIX4_PM.disable_s4": HardwareFeature,
	"ICH9-LPC.noreboot": Mishap, "PIIX4_PM.acpi-root-pci-hotplug": HardwareFeature, "ICH9-LPC.acpi-pci-hotplug-with-bridge-support": Address,
}

// objects say what properties of -object mean, by the start of its type.
var objects = []struct {
	kind      string
	keys      map[string]Meaning // nil: all of them mean the same
	otherwise Meaning
}{
	{"memory-backend-", map[string]Meaning{"size": RAM}, HostOnly},
	{"rng-", nil, HostOnly},
	{"iothread", nil, HostOnly},
	{"secret", nil, HostOnly},
	{"tls-", nil, HostOnly},
	{"throttle-group", nil, HostOnly},
	{"filter-dump", nil, HostOnly},
	{"filter-", nil, Network},
	{"thread-context", nil, HostOnly},
	{"can-bus", nil, HostOnly},
}

// presenceOf says what it means that an option is there, or not any more.
// other is the plan that doesn't have it.
func (s *side) presenceOf(o *plan.Option, added bool, other *side) (Meaning, string) {
	switch o.Flag {
	case "-device":
		noun := nounOf(o.Value)
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
		return Chipset, "without it QEMU takes the machine that it likes best"
	case "-object":
		return s.objectMeaning(o, ""), ""
	case "-global":
		return globalMeaning(o), ""
	case "-nodefaults":
		return HardwareReplaced, "without it QEMU adds a network card, a video card, a CD drive and more"
	}
	if m := flags[o.Flag]; m != "" {
		return m, ""
	}
	return Unknown, ""
}

// blockPresence is about nodes of the block layer: what matters is what they
// are for.
func (s *side) blockPresence(o *plan.Option, added bool, other *side) (Meaning, string) {
	role := s.roles[o.ID()]
	device, isDisk := strings.CutPrefix(role, diskRole)
	switch {
	case isDisk && other.made["-device "+device] == nil:
		return HostOnly, "part of the " + role + ", which comes or goes"
	case role == firmwareCode, role == firmwareVariables:
		return Firmware, role
	case role != "":
		if s.live[o.Flag+" "+o.ID()] {
			return Medium, role
		}
		return DiskContents, role
	case o.Flag == "-drive" && get(o, "if") != "none":
		if added {
			return HardwareAdded, "a drive"
		}
		return HardwareRemoved, "a drive"
	}
	return HostOnly, "no device uses it"
}

func (s *side) objectMeaning(o *plan.Option, key string) Meaning {
	for _, known := range objects {
		if strings.HasPrefix(o.Value, known.kind) {
			if m := known.keys[key]; m != "" {
				return m
			}
			return known.otherwise
		}
	}
	return Unknown
}

func globalMeaning(o *plan.Option) Meaning {
	global := globalOf(o)
	if m := globals[global]; m != "" {
		return m
	}
	_, property, _ := strings.Cut(global, ".")
	if m := deviceProperties[property]; m != "" {
		return m
	}
	return Unknown
}
