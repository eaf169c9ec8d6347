package comingfrom

import (
	"fmt"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// domain reads libvirt's XML, as docs/vm-types/from-libvirt.md has it, element by element.
type domain struct {
	*conversion
	x86, pc, windows bool
	disks            []*node // those that became drives, in the order of the drives
}

func (d *domain) read(root *node) {
	if root.name != "domain" {
		d.block(&node{line: root.line}, "this is a <"+root.name+"> of libvirt, not a <domain>",
			"virsh dumpxml --inactive NAME prints one")
		root.seeAll()
		return
	}
	root.see()
	root.get("id") // that of a running one
	d.kind(root.attribute("type"))
	d.vm().Name = root.one("name").value()
	d.keep(root.one("name"), "vm.name")
	d.vm().UUID = root.one("uuid").value()
	d.keep(root.one("uuid"), "vm.uuid")
	devices := root.one("devices")
	d.chooseType(root, devices)
	d.memory(root)
	d.cpus(root)
	d.os(root.one("os"), devices)
	d.cpu(root.one("cpu"), root.one("name"))
	d.features(root.one("features"))
	d.clock(root.one("clock"))
	d.events(root)
	d.others(root)
	d.devices(devices)
	d.bootOrder(root.one("os").all("boot"))
}

// kind reads who runs the guest's code.
func (d *domain) kind(n *node) {
	switch kind := n.value(); kind {
	case "kvm":
		d.keep(n, "vm.accelerator, which is kvm where there is KVM")
	case "qemu":
		d.vm().Accelerator = vmspec.AcceleratorTCG
		d.keep(n, "vm.accelerator: tcg")
	default:
		d.block(n, "a domain of type "+kind+" is not QEMU's", "make a new VM for its disks")
	}
}

// chooseType chooses the VM type: by the machine, by what is special about Windows, and by the bus of disks.
func (d *domain) chooseType(root, devices *node) {
	d.vm().Network = []vmspec.Network{}
	kind := root.one("os").one("type")
	if kind == nil {
		d.block(&node{line: root.line}, "the domain has no <os><type>", "")
		return
	}
	if kind.value() != "hvm" {
		d.block(kind, "the guest is no virtual machine of QEMU: "+kind.text, "")
		return
	}
	machine, arch := kind.attribute("machine"), kind.attribute("arch")
	_, isHyperV := hypervClock(root.one("clock"))
	isHyperV = isHyperV || root.one("features").one("hyperv") != nil
	switch {
	case arch == nil, arch.text == "x86_64":
		d.x86 = true
	case arch.text == "aarch64":
		d.config.VMType = "arm64"
	default:
		d.block(arch, "no stock type is for "+arch.text, "a VM type of your own: docs/vm-types/tutorial.md")
	}
	name := machine.value()
	d.pc = d.x86 && (name == "pc" || strings.HasPrefix(name, "pc-i440fx") ||
		strings.HasPrefix(name, "pc-") && !strings.HasPrefix(name, "pc-q35"))
	switch {
	case d.pc:
		d.config.VMType = "pc"
	case name == "microvm":
		d.config.VMType = "microvm"
	case d.x86 && isHyperV:
		d.windows, d.config.VMType, d.vm().Accelerator = true, "windows", vmspec.AcceleratorKVM
		if root.attribute("type").value() == "qemu" {
			d.vm().Accelerator = vmspec.AcceleratorTCG
		}
	case d.x86 && isCloud(devices):
		d.config.VMType = "cloud"
	}
	d.keep(arch, "the VM type "+d.typeName())
	d.machine(machine)
}

func (d *domain) typeName() string {
	if d.config.VMType == "" {
		return "standard"
	}
	return d.config.VMType
}

// isCloud reports whether disks are all on SCSI, and there is no screen.
func isCloud(devices *node) bool {
	buses := diskBuses(devices)
	return len(buses) == 1 && buses["scsi"] > 0 && devices.one("graphics") == nil
}

// machine reads the machine type. Those of distributions are known to their QEMU alone.
func (d *domain) machine(n *node) {
	switch {
	case n == nil:
	case n.text == "q35", n.text == "pc", n.text == "virt", n.text == "microvm":
		d.keep(n, "the machine of the VM type "+d.typeName())
	case isUpstream(n.text):
		d.vm().MachineType = n.text
		d.keep(n, "vm.machineType, of the VM type "+d.typeName())
	default:
		d.change(n, "the machine "+n.text+" is known to the QEMU of one distribution only: the VM gets the newest "+
			"of the VM type "+d.typeName(), "vm.machineType names another; qemu-system-x86_64 -machine help lists them")
	}
}

// isUpstream reports whether a machine is one of QEMU's own: its name ends with a version.
func isUpstream(name string) bool {
	family, version, _ := strings.Cut(strings.TrimPrefix(name, "pc-"), "-")
	if family != "q35" && family != "i440fx" && family != "virt" {
		version = family // pc-0.12, or nothing that is known
	}
	major, minor, _ := strings.Cut(version, ".")
	_, err := strconv.Atoi(major)
	_, err2 := strconv.ParseFloat(minor, 64)
	return err == nil && err2 == nil
}

// memory reads sizes of the RAM.
func (d *domain) memory(root *node) {
	most, now := root.one("memory"), root.one("currentMemory")
	if most == nil {
		d.block(&node{line: root.line}, "the domain has no <memory>", "")
		return
	}
	d.vm().MaximumRAM = d.size(most, "vm.maximumRam")
	if now != nil {
		if d.vm().CurrentRAM = d.size(now, "vm.currentRam"); d.vm().CurrentRAM == d.vm().MaximumRAM {
			d.vm().CurrentRAM = 0
		}
	}
	for _, n := range []*node{most, now} {
		if n != nil {
			d.drop(n.attribute("dumpCore"), "the RAM isn't in core dumps, ever")
		}
	}
	d.change(root.one("maxMemory"), "there are no slots for memory: vm.maximumRam is all there can be", "")
	if n := root.one("maxMemory"); n != nil {
		n.seeAll()
	}
	backing := root.one("memoryBacking")
	for _, n := range backing.all("hugepages") {
		d.block(n, "huge pages are the matter of a VM type", "the example type hugepages: docs/vm-types/huge-pages.md")
	}
	for _, name := range []string{"nosharepages", "locked", "source", "access", "allocation", "discard"} {
		for _, n := range backing.all(name) {
			d.drop(n, "how the host has the RAM is the VM type's matter")
		}
	}
}

// size reads a size in whole MiB.
func (d *domain) size(n *node, to string) vmspec.Bytes {
	unit := n.get("unit")
	factor, isKnown := map[string]uint64{
		"": 1 << 10, "b": 1, "bytes": 1, "KB": 1e3, "k": 1 << 10, "KiB": 1 << 10, "MB": 1e6, "M": 1 << 20,
		"MiB": 1 << 20, "GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40,
	}[unit]
	number, err := strconv.ParseUint(n.value(), 10, 64)
	const most = 1 << 50
	if !isKnown || err != nil || number == 0 || number > most/factor {
		d.block(n, fmt.Sprintf("%q %q is no size of a RAM", n.text, unit), "")
		return 0
	}
	whole := (number*factor + mebi - 1) / mebi * mebi
	if whole != number*factor {
		d.change(n, fmt.Sprintf("%s, rounded up to whole MiB", to), "")
	} else {
		d.keep(n, to)
	}
	return vmspec.Bytes(whole)
}

// cpus reads how many there are.
func (d *domain) cpus(root *node) {
	n := root.one("vcpu")
	if n == nil {
		d.vm().MaximumCPUs = 1
		return
	}
	d.vm().MaximumCPUs = d.count(n, "vm.maximumCpus")
	if a := n.attribute("current"); a != nil {
		d.vm().CurrentCPUs = d.count(a, "vm.currentCpus")
	}
	n.get("placement")
	d.drop(n.attribute("cpuset"), "where CPUs run is a VM type's matter: docs/vm-types/cpu-affinity.md")
	d.drop(root.one("vcpus"), "the runner chooses which CPUs are plugged")
	for _, name := range []string{"iothreads", "iothreadids", "defaultiothread"} {
		d.drop(root.one(name), "threads of disks are the VM type's matter")
	}
}

// count reads a positive number.
func (d *domain) count(n *node, to string) int {
	number, err := strconv.Atoi(n.value())
	if err != nil || number < 1 {
		d.block(n, fmt.Sprintf("%q is no number of at least 1", n.text), "")
		return 0
	}
	d.keep(n, to)
	return number
}

// others reads what has no effect in a configuration.
func (d *domain) others(root *node) {
	const tuning = "the control group's matter: systemd's service that runs the VM has such limits (docs/systemd.md)"
	for _, child := range root.children {
		switch child.name {
		case "title", "description", "metadata":
			d.drop(child, "a note of libvirt and its programs")
		case "cputune":
			d.drop(child, "pinning is a VM type's matter (docs/vm-types/cpu-affinity.md), the rest "+tuning)
		case "memtune", "numatune", "blkiotune", "resource", "throttlegroups":
			d.drop(child, tuning)
		case "seclabel":
			d.drop(child, "the service's matter; QEMU is confined by the runner")
		case "perf", "on_lockfailure", "backenddomain":
			d.drop(child, "libvirt's matter")
		case "genid":
			d.change(child, "the machine has no generation id", "")
		case "sysinfo":
			child.seeAll()
			d.change(child, "SMBIOS has the uuid, and none of these strings",
				"option(\"-smbios\", …) in a VM type of your own: docs/vm-types/add-device.md")
		case "launchSecurity", "keywrap":
			d.block(child, "the guest's memory can't be encrypted", "")
		case "bootloader", "bootloader_args", "idmap":
			d.block(child, "this is for containers and Xen", "")
		case "commandline", "qemu:commandline":
			d.block(child, "QEMU's arguments are the matter of a VM type",
				"write each as option(…) in a type of your own: docs/vm-types/add-device.md")
		case "qemu:capabilities", "qemu:deprecation":
			d.drop(child, "libvirt's matter")
		}
	}
}
