package comingfrom

import (
	"fmt"
	"strings"

	"vmop/vmspec"
)

// os reads from what the guest boots.
func (d *domain) os(n, devices *node) {
	if n == nil {
		return
	}
	d.firmware(n)
	if menu := n.one("bootmenu"); menu != nil {
		d.vm().BootMenu = menu.get("enable") == "yes"
		d.keep(menu, "vm.bootMenu")
		d.drop(menu.attribute("timeout"), "the firmware's default")
	}
	if kernel := n.one("kernel"); kernel != nil {
		initrd, line := n.one("initrd"), n.one("cmdline")
		d.vm().Kernel = &vmspec.Kernel{
			Image: kernel.value(), Initrd: initrd.value(), CommandLine: line.value(),
		}
		d.keep(kernel, "vm.kernel.image")
		d.keep(initrd, "vm.kernel.initrd")
		d.keep(line, "vm.kernel.commandLine")
	}
	if n := n.one("smbios"); n != nil {
		n.seeAll()
		if mode := n.get("mode"); mode != "emulate" {
			d.change(n, "SMBIOS is QEMU's own, with the uuid", "")
		}
	}
	d.drop(n.one("bios"), "the firmware's default; its serial port is the console of the VM type cloud")
	for _, table := range n.named("acpi") {
		d.block(table, "ACPI tables are a VM type's matter", "option(\"-acpitable\", …): docs/vm-types/add-device.md")
	}
	for _, tree := range n.named("dtb") {
		d.block(tree, "a device tree is a VM type's matter", "option(\"-dtb\", …): docs/vm-types/add-device.md")
	}
}

// firmware reads what of it there is: it is chosen by libvirt (firmware='efi'), or given (loader).
func (d *domain) firmware(n *node) {
	chosen, loader, nvram := n.attribute("firmware"), n.one("loader"), n.one("nvram")
	features := n.one("firmware")
	efi := chosen != nil && chosen.text == "efi" || loader.get("type") == "pflash" ||
		loader != nil && isEFI(loader.value())
	secure := loader.get("secure") == "yes"
	for _, f := range features.all("feature") {
		on := f.get("enabled") == "yes"
		switch f.get("name") {
		case "secure-boot":
			secure = secure || on
			d.keep(f, "vm.firmware")
		case "enrolled-keys":
			if on {
				d.keep(f, "the variables of secure firmware begin with Microsoft's keys")
			} else {
				d.change(f, "if it is secure firmware, its variables begin with Microsoft's keys", "")
			}
		default:
			d.drop(f, "is not known here")
		}
	}
	if (secure || efi) && d.pc {
		d.block(n, "the VM type pc has a BIOS only", "a guest that boots by UEFI is at home on q35: change the machine")
		return
	}
	kind := vmspec.FirmwareBIOS
	large := strings.Contains(loader.value()+nvram.get("template"), "_4M") || !strings.Contains(loader.value(), "OVMF")
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
	d.vm().Firmware = kind
	if d.windows && !strings.HasPrefix(string(kind), "secure") {
		d.option("secureBoot", false)
	}
	d.reportFirmware(chosen, loader, nvram, kind)
}

func isEFI(loader string) bool {
	return strings.Contains(loader, "OVMF") || strings.Contains(loader, "AAVMF") || strings.Contains(loader, "edk2")
}

func (d *domain) reportFirmware(chosen, loader, nvram *node, kind vmspec.Firmware) {
	to := "vm.firmware: " + string(kind)
	if chosen != nil && chosen.text != "efi" && chosen.text != "bios" {
		d.block(chosen, fmt.Sprintf("%q is no firmware that is known here", chosen.text), "")
	}
	if loader == nil && kind != vmspec.FirmwareBIOS {
		d.change(chosen, to+", where libvirt has chosen itself",
			"want uefi or secure if its file of variables has 131072 bytes, not 540672: vm.firmware")
	} else {
		d.keep(chosen, to)
	}
	if loader != nil {
		stateless := loader.get("stateless") == "yes"
		for _, name := range []string{"readonly", "type", "secure", "format", "stateless"} {
			loader.get(name)
		}
		if d.change(loader, to+", of the files that the runner finds", ""); stateless {
			d.change(loader.attribute("stateless"), "the firmware's variables are kept", "")
		}
	}
	if nvram != nil {
		nvram.seeAll()
		d.change(nvram, "a file in the data directory",
			"copy it to fw-vars.fd there, to keep the variables: docs/vm-types/from-libvirt.md#state")
	}
}

// cpu reads the model and the topology.
func (d *domain) cpu(n, name *node) {
	if n == nil {
		d.change(&node{path: "cpu", line: name.lineOr(1)}, "the domain names no CPU, which is a qemu64 to libvirt; here it is host",
			"vm.cpuModel: qemu64 has it as it was")
		return
	}
	for _, each := range []string{"match", "check", "migratable"} {
		n.get(each)
	}
	mode, model := n.attribute("mode"), n.one("model")
	model.get("fallback")
	if v := model.attribute("vendor_id"); v != nil {
		d.change(v, "the CPU's vendor is that of the model", "vendor=… in vm.cpuModel")
	}
	cpu := model.value()
	switch kind := mode.value(); {
	case kind == "host-passthrough":
		cpu = "host"
		d.keep(mode, "vm.cpuModel: host, the default")
	case kind == "host-model":
		cpu = "host"
		d.change(mode, "vm.cpuModel: host, this computer's CPU itself, not a model of it",
			"virsh domcapabilities names the model")
	case kind == "maximum":
		cpu = "max"
		d.keep(mode, "vm.cpuModel: max")
	case cpu == "":
		cpu = "host"
		d.change(n, "no CPU is named, which is a qemu64 to libvirt; here it is host", "")
	}
	d.keep(model, "vm.cpuModel")
	d.drop(n.one("vendor"), "a check of libvirt's")
	d.drop(n.one("cache"), "the CPU's cache is the VM type's matter")
	if n := n.one("maxphysaddr"); n != nil {
		n.seeAll()
		d.change(n, "the size of addresses is the host's", "phys-bits=… in vm.cpuModel")
	}
	cpu += d.cpuFeatures(n)
	if cpu != "host" {
		d.vm().CPUModel = cpu
	}
	d.topology(n.one("topology"))
	if numa := n.one("numa"); numa != nil {
		if len(numa.all("cell")) == 1 {
			d.drop(numa, "a single node is no NUMA")
		}
		d.block(numaOrNil(numa), "NUMA nodes are a VM type's matter", "docs/vm-types/library.md")
	}
}

func numaOrNil(n *node) *node {
	if len(n.named("cell")) == 1 {
		return nil
	}
	return n
}

// lineOr returns the line of a part, or another.
func (n *node) lineOr(line int) int {
	if n == nil {
		return line
	}
	return n.line
}

// cpuFeatures returns what follows the model in vm.cpuModel.
func (d *domain) cpuFeatures(n *node) (text string) {
	for _, f := range n.all("feature") {
		name := f.get("name")
		if name == "" || strings.ContainsAny(name, ",= \n") {
			d.block(f, "a feature without a name", "")
			continue
		}
		switch policy := f.get("policy"); policy {
		case "", "force", "require":
			text += "," + name + "=on"
			d.keep(f, "vm.cpuModel")
		case "disable", "forbid":
			text += "," + name + "=off"
			d.keep(f, "vm.cpuModel")
		default:
			d.change(f, name+" is as the model has it", "")
		}
	}
	return text
}

func (d *domain) topology(n *node) {
	if n == nil {
		return
	}
	level := func(name string) int {
		if a := n.attribute(name); a != nil {
			return d.count(a, "vm."+map[string]string{
				"sockets": "sockets", "dies": "diesPerSocket", "cores": "coresPerDie", "threads": "threadsPerCore",
			}[name])
		}
		return 1
	}
	vm := d.vm()
	vm.Sockets, vm.DiesPerSocket = level("sockets"), level("dies")
	vm.CoresPerDie, vm.ThreadsPerCore = level("cores"), level("threads")
	if clusters := n.attribute("clusters"); clusters != nil && clusters.text != "1" {
		d.block(clusters, "a topology with clusters is a VM type's matter", "")
	}
}

// features reads switches of the machine.
func (d *domain) features(n *node) {
	for _, name := range []string{"acpi", "apic"} {
		if f := n.one(name); f != nil {
			f.seeAll()
			d.keep(f, "always there")
		} else if d.x86 {
			d.change(&node{path: "features", line: n.lineOr(1)}, name+" is always there, and wasn't", "")
		}
	}
	for _, name := range []string{
		"pae", "hap", "viridian", "gic", "ioapic", "vmcoreinfo", "pmu", "async-teardown", "ras",
	} {
		d.drop(n.one(name), "as QEMU and the VM type have it")
	}
	if f := n.one("vmport"); f.get("state") == "on" {
		d.change(f, "the port of VMware's tools is off", "")
	} else {
		d.keep(f, "off")
	}
	if f := n.one("smm"); f != nil {
		f.seeAll()
		d.keep(f, "on with secure boot")
	}
	for _, name := range []string{"kvm", "xen", "pvspinlock", "tcg"} {
		if f := n.one(name); f != nil {
			f.seeAll()
			d.change(f, "as the VM type has it", "properties of the CPU, such as kvm=off, in vm.cpuModel")
		}
	}
	if f := n.one("hyperv"); f != nil {
		f.seeAll()
		if d.windows {
			d.keep(f, "the enlightenments of the VM type windows")
		} else {
			d.change(f, "the VM type "+d.typeName()+" has none", "properties such as hv-relaxed in vm.cpuModel")
		}
	}
}

// hypervClock returns the timer of Hyper-V that a clock has.
func hypervClock(clock *node) (timer *node, on bool) {
	for _, t := range clock.named("timer") {
		if t.get("name") == "hypervclock" {
			return t, t.get("present") != "no"
		}
	}
	return nil, false
}

func (d *domain) clock(n *node) {
	if n == nil {
		return
	}
	d.timers(n)
	offset := n.attribute("offset")
	switch offset.value() {
	case "", "utc":
		d.keep(offset, "vm.rtcBase: utc, the default")
		if d.windows {
			d.option("localTime", false)
		}
	case "localtime":
		if !d.windows {
			d.vm().RTCBase = "localtime"
		}
		d.keep(offset, "vm.rtcBase: localtime")
	case "timezone":
		d.vm().RTCBase = "localtime"
		d.drop(n.attribute("timezone"), "see offset")
		d.change(offset, "vm.rtcBase: localtime, that of this computer", "")
	case "variable":
		if n.get("basis") == "localtime" {
			d.vm().RTCBase = "localtime"
		}
		d.drop(n.attribute("basis"), "see offset")
		d.change(offset, "the clock begins with the time of the host at each start", "")
	default:
		n.seeAll()
		d.block(offset, "the clock can't begin at "+offset.text, "vm.rtcBase takes a date")
	}
	for _, name := range []string{"adjustment", "start"} {
		d.drop(n.attribute(name), "the clock begins with the time of the host")
	}
}

func (d *domain) timers(clock *node) {
	hyperv, on := hypervClock(clock)
	for _, t := range clock.all("timer") {
		if t.seeAll(); t == hyperv && on && d.windows {
			d.keep(t, "the VM type windows")
		} else {
			d.drop(t, "timers are the VM type's matter")
		}
	}
}

// events reads what follows the end of a guest.
func (d *domain) events(root *node) {
	for _, e := range []struct{ name, same, otherwise string }{
		{"on_poweroff", "destroy", "the VM ends when the guest shuts down"},
		{"on_reboot", "restart", "the guest starts again when it reboots"},
	} {
		if n := root.one(e.name); n.value() == e.same {
			d.keep(n, "always so")
		} else {
			d.change(n, e.otherwise, "docs/shutdown.md")
		}
	}
	crash := root.one("on_crash")
	switch crash.value() {
	case "destroy", "":
		d.keep(crash, "vm.options.panic: shutdown, the default")
	case "preserve":
		d.option("panic", "pause")
		d.keep(crash, "vm.options.panic: pause")
	case "restart":
		d.change(crash, "the VM ends, and systemd's service starts it again", "docs/shutdown.md#guests-that-crash")
	default:
		d.change(crash, "the VM ends, without a dump of its memory", "docs/shutdown.md#guests-that-crash")
	}
	for _, n := range root.one("pm").all("suspend-to-mem") {
		d.suspend(n)
	}
	for _, n := range root.one("pm").all("suspend-to-disk") {
		d.suspend(n)
	}
}

func (d *domain) suspend(n *node) {
	if n.get("enabled") == "yes" {
		d.change(n, "the guest can't suspend", "")
	} else {
		d.keep(n, "always so")
	}
}
