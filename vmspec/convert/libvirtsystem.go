package convert

import (
	"fmt"
	"strings"

	"vmop/vmspec"
)

// readOS reads what the guest boots from.
func (d *domain) readOS(n, devices *node) {
	if n == nil {
		return
	}
	d.readFirmware(n)
	if menu := n.firstChild("bootmenu"); menu != nil {
		d.vmSection().BootMenu = menu.attributeValue("enable") == "yes"
		d.keepPart(menu, "vm.bootMenu")
		d.dropPart(menu.attributeNode("timeout"), "the firmware's default")
	}
	if kernel := n.firstChild("kernel"); kernel != nil {
		initrd, line := n.firstChild("initrd"), n.firstChild("cmdline")
		d.vmSection().Kernel = &vmspec.Kernel{
			Image: kernel.textValue(), Initrd: initrd.textValue(), CommandLine: line.textValue(),
		}
		d.keepPart(kernel, "vm.kernel.image")
		d.keepPart(initrd, "vm.kernel.initrd")
		d.keepPart(line, "vm.kernel.commandLine")
	}
	if n := n.firstChild("smbios"); n != nil {
		n.seeAll()
		if mode := n.attributeValue("mode"); mode != "emulate" {
			d.changePart(n, "SMBIOS is QEMU's own, with the uuid", "")
		}
	}
	d.dropPart(n.firstChild("bios"), "the firmware's default; its serial port is the console of the VM type cloud")
	for _, table := range n.childrenNamed("acpi") {
		d.blockPart(table, "ACPI tables are a VM type's matter",
			"option(\"-acpitable\", …): docs/vm-types/add-device.md")
	}
	for _, tree := range n.childrenNamed("dtb") {
		d.blockPart(tree, "a device tree is a VM type's matter", "option(\"-dtb\", …): docs/vm-types/add-device.md")
	}
}

// readFirmware reads the firmware. Either libvirt chooses it (firmware='efi'), or it is given (loader).
func (d *domain) readFirmware(n *node) {
	chosen, loader, nvram := n.attributeNode("firmware"), n.firstChild("loader"), n.firstChild("nvram")
	features := n.firstChild("firmware")
	efi := chosen != nil && chosen.text == "efi" || loader.attributeValue("type") == "pflash" ||
		loader != nil && isEFI(loader.textValue())
	secure := loader.attributeValue("secure") == "yes"
	for _, f := range features.takeChildren("feature") {
		on := f.attributeValue("enabled") == "yes"
		switch f.attributeValue("name") {
		case "secure-boot":
			secure = secure || on
			d.keepPart(f, "vm.firmware")
		case "enrolled-keys":
			if on {
				d.keepPart(f, "the variables of secure firmware begin with Microsoft's keys")
			} else {
				d.changePart(f, "if it is secure firmware, its variables begin with Microsoft's keys", "")
			}
		default:
			d.dropPart(f, "is not known here")
		}
	}
	if (secure || efi) && d.pc {
		d.blockPart(n, "the VM type pc has a BIOS only", "a guest that boots by UEFI is at home on q35: change the machine")
		return
	}
	kind := vmspec.FirmwareBIOS
	large := strings.Contains(loader.textValue()+nvram.attributeValue("template"), "_4M") ||
		!strings.Contains(loader.textValue(), "OVMF")
	switch {
	case !efi && !secure:
	case (secure || d.windows && loader == nil && features == nil) && large:
		kind = vmspec.FirmwareSecure4M
	case secure || d.windows && loader == nil && features == nil:
		kind = vmspec.FirmwareSecure
	case large:
		kind = vmspec.FirmwareUEFI4M
	default:
		kind = vmspec.FirmwareUEFI
	}
	d.vmSection().Firmware = kind
	if d.windows && !strings.HasPrefix(string(kind), "secure") {
		d.setOption("secureBoot", false)
	}
	d.reportFirmware(chosen, loader, nvram, kind)
}

func isEFI(loader string) bool {
	return strings.Contains(loader, "OVMF") || strings.Contains(loader, "AAVMF") || strings.Contains(loader, "edk2")
}

func (d *domain) reportFirmware(chosen, loader, nvram *node, kind vmspec.Firmware) {
	to := "vm.firmware: " + string(kind)
	if chosen != nil && chosen.text != "efi" && chosen.text != "bios" {
		d.blockPart(chosen, fmt.Sprintf("%q is not a known firmware", chosen.text), "")
	}
	if loader == nil && kind != vmspec.FirmwareBIOS {
		d.changePart(chosen, to+", where libvirt has chosen itself",
			"set vm.firmware to uefi or secure if its file of variables has 131072 bytes, not 540672")
	} else {
		d.keepPart(chosen, to)
	}
	if loader != nil {
		stateless := loader.attributeValue("stateless") == "yes"
		for _, name := range []string{"readonly", "type", "secure", "format", "stateless"} {
			loader.attributeValue(name)
		}
		if d.changePart(loader, to+", of the files that the runner finds", ""); stateless {
			d.changePart(loader.attributeNode("stateless"), "the firmware's variables are kept", "")
		}
	}
	if nvram != nil {
		nvram.seeAll()
		d.changePart(nvram, "a file in the data directory",
			"copy it to fw-vars.fd there, to keep the variables: docs/vm-types/from-libvirt.md#state")
	}
}

// readCPU reads the model and the topology.
func (d *domain) readCPU(n, name *node) {
	if n == nil {
		d.changePart(&node{path: "cpu", line: name.lineOr(1)},
			"the domain names no CPU, which is a qemu64 to libvirt; here it is host",
			"vm.cpuModel: qemu64 has it as it was")
		return
	}
	for _, each := range []string{"match", "check", "migratable"} {
		n.attributeValue(each)
	}
	mode, model := n.attributeNode("mode"), n.firstChild("model")
	model.attributeValue("fallback")
	if v := model.attributeNode("vendor_id"); v != nil {
		d.changePart(v, "the CPU model determines the vendor", "vendor=… in vm.cpuModel")
	}
	cpu := model.textValue()
	switch kind := mode.textValue(); {
	case kind == "host-passthrough":
		cpu = "host"
		d.keepPart(mode, "vm.cpuModel: host, the default")
	case kind == "host-model":
		cpu = "host"
		d.changePart(mode, "vm.cpuModel: host, this computer's CPU itself, not a model of it",
			"virsh domcapabilities names the model")
	case kind == "maximum":
		cpu = "max"
		d.keepPart(mode, "vm.cpuModel: max")
	case cpu == "":
		cpu = "host"
		d.changePart(n, "no CPU is named, which is a qemu64 to libvirt; here it is host", "")
	}
	d.keepPart(model, "vm.cpuModel")
	d.dropPart(n.firstChild("vendor"), "a check of libvirt's")
	d.dropPart(n.firstChild("cache"), "the CPU's cache is the VM type's matter")
	if n := n.firstChild("maxphysaddr"); n != nil {
		n.seeAll()
		d.changePart(n, "the size of addresses is the host's", "phys-bits=… in vm.cpuModel")
	}
	cpu += d.cpuFeatures(n)
	if cpu != "host" {
		d.vmSection().CPUModel = cpu
	}
	d.readTopology(n.firstChild("topology"))
	if numa := n.firstChild("numa"); numa != nil {
		if len(numa.takeChildren("cell")) == 1 {
			d.dropPart(numa, "a single node is no NUMA")
		}
		d.blockPart(numaOrNil(numa), "NUMA nodes are a VM type's matter", "docs/vm-types/library.md")
	}
}

func numaOrNil(n *node) *node {
	if len(n.childrenNamed("cell")) == 1 {
		return nil
	}
	return n
}

// lineOr returns the line of a node, or line if the node is nil.
func (n *node) lineOr(line int) int {
	if n == nil {
		return line
	}
	return n.line
}

// cpuFeatures returns the features for vm.cpuModel, which follow the model.
func (d *domain) cpuFeatures(n *node) (text string) {
	for _, f := range n.takeChildren("feature") {
		name := f.attributeValue("name")
		if name == "" || strings.ContainsAny(name, ",= \n") {
			d.blockPart(f, "a feature without a name", "")
			continue
		}
		switch policy := f.attributeValue("policy"); policy {
		case "", "force", "require":
			text += "," + name + "=on"
			d.keepPart(f, "vm.cpuModel")
		case "disable", "forbid":
			text += "," + name + "=off"
			d.keepPart(f, "vm.cpuModel")
		default:
			d.changePart(f, name+" is as in the model", "")
		}
	}
	return text
}

func (d *domain) readTopology(n *node) {
	if n == nil {
		return
	}
	level := func(name string) int {
		if a := n.attributeNode(name); a != nil {
			return d.readCount(a, "vm."+map[string]string{
				"sockets": "sockets", "dies": "diesPerSocket", "cores": "coresPerDie", "threads": "threadsPerCore",
			}[name])
		}
		return 1
	}
	vm := d.vmSection()
	vm.Sockets, vm.DiesPerSocket = level("sockets"), level("dies")
	vm.CoresPerDie, vm.ThreadsPerCore = level("cores"), level("threads")
	if clusters := n.attributeNode("clusters"); clusters != nil && clusters.text != "1" {
		d.blockPart(clusters, "a topology with clusters is a VM type's matter", "")
	}
}

// readFeatures reads switches of the machine.
func (d *domain) readFeatures(n *node) {
	for _, name := range []string{"acpi", "apic"} {
		if f := n.firstChild(name); f != nil {
			f.seeAll()
			d.keepPart(f, "always there")
		} else if d.x86 {
			d.changePart(&node{path: "features", line: n.lineOr(1)}, name+" is always there, and wasn't", "")
		}
	}
	for _, name := range []string{
		"pae", "hap", "viridian", "gic", "ioapic", "vmcoreinfo", "pmu", "async-teardown", "ras",
	} {
		d.dropPart(n.firstChild(name), "as QEMU and the VM type have it")
	}
	if f := n.firstChild("vmport"); f.attributeValue("state") == "on" {
		d.changePart(f, "the port of VMware's tools is off", "")
	} else {
		d.keepPart(f, "off")
	}
	if f := n.firstChild("smm"); f != nil {
		f.seeAll()
		d.keepPart(f, "on with secure boot")
	}
	for _, name := range []string{"kvm", "xen", "pvspinlock", "tcg"} {
		if f := n.firstChild(name); f != nil {
			f.seeAll()
			d.changePart(f, "as in the VM type", "properties of the CPU, such as kvm=off, in vm.cpuModel")
		}
	}
	if f := n.firstChild("hyperv"); f != nil {
		f.seeAll()
		if d.windows {
			d.keepPart(f, "the enlightenments of the VM type windows")
		} else {
			d.changePart(f, "the VM type "+d.typeName()+" has none", "properties such as hv-relaxed in vm.cpuModel")
		}
	}
}

// hypervClock returns the Hyper-V timer of a clock, and whether it is on.
func hypervClock(clock *node) (timer *node, on bool) {
	for _, t := range clock.childrenNamed("timer") {
		if t.attributeValue("name") == "hypervclock" {
			return t, t.attributeValue("present") != "no"
		}
	}
	return nil, false
}

func (d *domain) readClock(n *node) {
	if n == nil {
		return
	}
	d.readTimers(n)
	offset := n.attributeNode("offset")
	switch offset.textValue() {
	case "", "utc":
		d.keepPart(offset, "vm.rtcBase: utc, the default")
		if d.windows {
			d.setOption("localTime", false)
		}
	case "localtime":
		if !d.windows {
			d.vmSection().RTCBase = "localtime"
		}
		d.keepPart(offset, "vm.rtcBase: localtime")
	case "timezone":
		d.vmSection().RTCBase = "localtime"
		d.dropPart(n.attributeNode("timezone"), "see offset")
		d.changePart(offset, "vm.rtcBase: localtime, of this computer", "")
	case "variable":
		if n.attributeValue("basis") == "localtime" {
			d.vmSection().RTCBase = "localtime"
		}
		d.dropPart(n.attributeNode("basis"), "see offset")
		d.changePart(offset, "the clock begins with the time of the host at each start", "")
	default:
		n.seeAll()
		d.blockPart(offset, "the clock can't begin at "+offset.text, "vm.rtcBase takes a date")
	}
	for _, name := range []string{"adjustment", "start"} {
		d.dropPart(n.attributeNode(name), "the clock begins with the time of the host")
	}
}

func (d *domain) readTimers(clock *node) {
	hyperv, on := hypervClock(clock)
	for _, t := range clock.takeChildren("timer") {
		if t.seeAll(); t == hyperv && on && d.windows {
			d.keepPart(t, "the VM type windows")
		} else {
			d.dropPart(t, "timers are the VM type's matter")
		}
	}
}

// readEvents reads the reactions to the end of a guest.
func (d *domain) readEvents(root *node) {
	for _, e := range []struct{ name, same, otherwise string }{
		{"on_poweroff", "destroy", "the VM ends when the guest shuts down"},
		{"on_reboot", "restart", "the guest starts again when it reboots"},
	} {
		if n := root.firstChild(e.name); n.textValue() == e.same {
			d.keepPart(n, "always so")
		} else {
			d.changePart(n, e.otherwise, "docs/concepts/shutdown.md")
		}
	}
	crash := root.firstChild("on_crash")
	switch crash.textValue() {
	case "destroy", "":
		d.keepPart(crash, "vm.options.panic: shutdown, the default")
	case "preserve":
		d.setOption("panic", "pause")
		d.keepPart(crash, "vm.options.panic: pause")
	case "restart":
		d.changePart(crash, "the VM ends, and systemd's service starts it again",
			"docs/concepts/shutdown.md#guests-that-crash")
	default:
		d.changePart(crash, "the VM ends, without a dump of its memory", "docs/concepts/shutdown.md#guests-that-crash")
	}
	for _, n := range root.firstChild("pm").takeChildren("suspend-to-mem") {
		d.readSuspend(n)
	}
	for _, n := range root.firstChild("pm").takeChildren("suspend-to-disk") {
		d.readSuspend(n)
	}
}

func (d *domain) readSuspend(n *node) {
	if n.attributeValue("enabled") == "yes" {
		d.changePart(n, "the guest can't suspend", "")
	} else {
		d.keepPart(n, "always so")
	}
}
