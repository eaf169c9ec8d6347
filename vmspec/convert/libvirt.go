package convert

import (
	"fmt"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// domain reads libvirt's XML, element by element, as described in docs/vm-types/from-libvirt.md.
type domain struct {
	*conversion
	x86, pc, windows bool
	disks            []*node // the nodes of vm.drives, in the same order
}

func (d *domain) readDomain(root *node) {
	if root.name != "domain" {
		d.blockPart(&node{line: root.line}, "this is a <"+root.name+"> of libvirt, not a <domain>",
			"virsh dumpxml --inactive NAME prints one")
		root.seeAll()
		return
	}
	root.markSeen()
	root.attributeValue("id") // only a running domain has an id
	d.readKind(root.attributeNode("type"))
	d.vmSection().Name = root.firstChild("name").textValue()
	d.keepPart(root.firstChild("name"), "vm.name")
	d.vmSection().UUID = root.firstChild("uuid").textValue()
	d.keepPart(root.firstChild("uuid"), "vm.uuid")
	devices := root.firstChild("devices")
	d.chooseType(root, devices)
	d.readMemory(root)
	d.readCPUs(root)
	d.readOS(root.firstChild("os"), devices)
	d.readCPU(root.firstChild("cpu"), root.firstChild("name"))
	d.readFeatures(root.firstChild("features"))
	d.readClock(root.firstChild("clock"))
	d.readEvents(root)
	d.readOthers(root)
	d.readDevices(devices)
	d.bootOrder(root.firstChild("os").takeChildren("boot"))
}

// readKind reads the accelerator.
func (d *domain) readKind(n *node) {
	switch kind := n.textValue(); kind {
	case "kvm":
		d.keepPart(n, "vm.accelerator, which is kvm where there is KVM")
	case "qemu":
		d.vmSection().Accelerator = vmspec.AcceleratorTCG
		d.keepPart(n, "vm.accelerator: tcg")
	default:
		d.blockPart(n, "a domain of type "+kind+" is not QEMU's", "create a new VM for its disks")
	}
}

// chooseType chooses the VM type by the machine, by elements that are specific to Windows, and by the bus of the
// disks.
func (d *domain) chooseType(root, devices *node) {
	d.vmSection().Network = []vmspec.Network{}
	kind := root.firstChild("os").firstChild("type")
	if kind == nil {
		d.blockPart(&node{line: root.line}, "the domain has no <os><type>", "")
		return
	}
	if kind.textValue() != "hvm" {
		d.blockPart(kind, "the guest is not a virtual machine of QEMU: "+kind.text, "")
		return
	}
	machine, arch := kind.attributeNode("machine"), kind.attributeNode("arch")
	_, isHyperV := hypervClock(root.firstChild("clock"))
	isHyperV = isHyperV || root.firstChild("features").firstChild("hyperv") != nil
	switch {
	case arch == nil, arch.text == "x86_64":
		d.x86 = true
	case arch.text == "aarch64":
		d.config.VMType = "arm64"
	default:
		d.blockPart(arch, "no stock type is for "+arch.text, "your own VM type: docs/vm-types/tutorial.md")
	}
	name := machine.textValue()
	d.pc = d.x86 && (name == "pc" || strings.HasPrefix(name, "pc-i440fx") ||
		strings.HasPrefix(name, "pc-") && !strings.HasPrefix(name, "pc-q35"))
	switch {
	case d.pc:
		d.config.VMType = "pc"
	case name == "microvm":
		d.config.VMType = "microvm"
	case d.x86 && isHyperV:
		d.windows, d.config.VMType, d.vmSection().Accelerator = true, "windows", vmspec.AcceleratorKVM
		if root.attributeNode("type").textValue() == "qemu" {
			d.vmSection().Accelerator = vmspec.AcceleratorTCG
		}
	case d.x86 && isCloud(devices):
		d.config.VMType = "cloud"
	}
	d.keepPart(arch, "the VM type "+d.typeName())
	d.readMachine(machine)
}

func (d *domain) typeName() string {
	if d.config.VMType == "" {
		return "standard"
	}
	return d.config.VMType
}

// isCloud reports whether all disks are on SCSI and there is no screen.
func isCloud(devices *node) bool {
	buses := diskBuses(devices)
	return len(buses) == 1 && buses["scsi"] > 0 && devices.firstChild("graphics") == nil
}

// readMachine reads the machine type. Only a distribution's own QEMU knows the distribution's machine types.
func (d *domain) readMachine(n *node) {
	switch {
	case n == nil:
	case n.text == "q35", n.text == "pc", n.text == "virt", n.text == "microvm":
		d.keepPart(n, "the machine of the VM type "+d.typeName())
	case isUpstream(n.text):
		d.vmSection().MachineType = n.text
		d.keepPart(n, "vm.machineType, of the VM type "+d.typeName())
	default:
		d.changePart(n, "the machine "+n.text+" is known to the QEMU of one distribution only: the VM gets the newest "+
			"of the VM type "+d.typeName(), "vm.machineType names another; qemu-system-x86_64 -machine help lists them")
	}
}

// isUpstream reports whether a machine type is one of upstream QEMU. Such a name ends with a version.
func isUpstream(name string) bool {
	family, version, _ := strings.Cut(strings.TrimPrefix(name, "pc-"), "-")
	if family != "q35" && family != "i440fx" && family != "virt" {
		version = family // pc-0.12, or an unknown name
	}
	major, minor, _ := strings.Cut(version, ".")
	_, err := strconv.Atoi(major)
	_, err2 := strconv.ParseFloat(minor, 64)
	return err == nil && err2 == nil
}

// readMemory reads the sizes of the RAM.
func (d *domain) readMemory(root *node) {
	most, now := root.firstChild("memory"), root.firstChild("currentMemory")
	if most == nil {
		d.blockPart(&node{line: root.line}, "the domain has no <memory>", "")
		return
	}
	d.vmSection().MaximumRAM = d.readSize(most, "vm.maximumRam")
	if now != nil {
		if d.vmSection().CurrentRAM = d.readSize(now,
			"vm.currentRam"); d.vmSection().CurrentRAM == d.vmSection().MaximumRAM {
			d.vmSection().CurrentRAM = 0
		}
	}
	for _, n := range []*node{most, now} {
		if n != nil {
			d.dropPart(n.attributeNode("dumpCore"), "the RAM isn't in core dumps, ever")
		}
	}
	d.changePart(root.firstChild("maxMemory"), "there are no slots for memory: vm.maximumRam is all there can be", "")
	if n := root.firstChild("maxMemory"); n != nil {
		n.seeAll()
	}
	backing := root.firstChild("memoryBacking")
	for _, n := range backing.takeChildren("hugepages") {
		d.blockPart(n, "huge pages are the matter of a VM type", "the example type hugepages: docs/vm-types/huge-pages.md")
	}
	for _, name := range []string{"nosharepages", "locked", "source", "access", "allocation", "discard"} {
		for _, n := range backing.takeChildren(name) {
			d.dropPart(n, "how the host has the RAM is the VM type's matter")
		}
	}
}

// readSize reads a size and rounds it up to whole MiB.
func (d *domain) readSize(n *node, to string) vmspec.Bytes {
	unit := n.attributeValue("unit")
	factor, isKnown := map[string]uint64{
		"": 1 << 10, "b": 1, "bytes": 1, "KB": 1e3, "k": 1 << 10, "KiB": 1 << 10, "MB": 1e6, "M": 1 << 20,
		"MiB": 1 << 20, "GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40,
	}[unit]
	number, err := strconv.ParseUint(n.textValue(), 10, 64)
	const most = 1 << 50
	if !isKnown || err != nil || number == 0 || number > most/factor {
		d.blockPart(n, fmt.Sprintf("%q %q is not a memory size", n.text, unit), "")
		return 0
	}
	whole := (number*factor + mebi - 1) / mebi * mebi
	if whole != number*factor {
		d.changePart(n, fmt.Sprintf("%s, rounded up to whole MiB", to), "")
	} else {
		d.keepPart(n, to)
	}
	return vmspec.Bytes(whole)
}

// readCPUs reads the numbers of CPUs.
func (d *domain) readCPUs(root *node) {
	n := root.firstChild("vcpu")
	if n == nil {
		d.vmSection().MaximumCPUs = 1
		return
	}
	d.vmSection().MaximumCPUs = d.readCount(n, "vm.maximumCpus")
	if a := n.attributeNode("current"); a != nil {
		d.vmSection().CurrentCPUs = d.readCount(a, "vm.currentCpus")
	}
	n.attributeValue("placement")
	d.dropPart(n.attributeNode("cpuset"), "where CPUs run is a VM type's matter: docs/vm-types/cpu-affinity.md")
	d.dropPart(root.firstChild("vcpus"), "the runner chooses which CPUs are plugged")
	for _, name := range []string{"iothreads", "iothreadids", "defaultiothread"} {
		d.dropPart(root.firstChild(name), "threads of disks are the VM type's matter")
	}
}

// readCount reads a positive number.
func (d *domain) readCount(n *node, to string) int {
	number, err := strconv.Atoi(n.textValue())
	if err != nil || number < 1 {
		d.blockPart(n, fmt.Sprintf("%q is not a number of at least 1", n.text), "")
		return 0
	}
	d.keepPart(n, to)
	return number
}

// readOthers reads elements without an effect on the configuration.
func (d *domain) readOthers(root *node) {
	const tuning = "the control group's matter: systemd's service that runs the VM has such limits " +
		"(docs/tasks/systemd.md)"
	for _, child := range root.children {
		switch child.name {
		case "title", "description", "metadata":
			d.dropPart(child, "a note of libvirt and its programs")
		case "cputune":
			d.dropPart(child, "pinning is a VM type's matter (docs/vm-types/cpu-affinity.md), the rest "+tuning)
		case "memtune", "numatune", "blkiotune", "resource", "throttlegroups":
			d.dropPart(child, tuning)
		case "seclabel":
			d.dropPart(child, "the service's matter; QEMU is confined by the runner")
		case "perf", "on_lockfailure", "backenddomain":
			d.dropPart(child, "libvirt's matter")
		case "genid":
			d.changePart(child, "the machine has no generation id", "")
		case "sysinfo":
			child.seeAll()
			d.changePart(child, "SMBIOS has the uuid, and none of these strings",
				"option(\"-smbios\", …) in your own VM type: docs/vm-types/add-device.md")
		case "launchSecurity", "keywrap":
			d.blockPart(child, "the guest's memory can't be encrypted", "")
		case "bootloader", "bootloader_args", "idmap":
			d.blockPart(child, "this is for containers and Xen", "")
		case "commandline", "qemu:commandline":
			d.blockPart(child, "QEMU's arguments are the matter of a VM type",
				"write each as option(…) in your own type: docs/vm-types/add-device.md")
		case "qemu:capabilities", "qemu:deprecation":
			d.dropPart(child, "libvirt's matter")
		}
	}
}
