package comingfrom

import (
	"fmt"
	"strconv"

	"vmop/vmspec"
)

// devices reads all devices.
func (d *domain) devices(devices *node) {
	if devices == nil {
		return
	}
	d.chooseBus(devices)
	if d.windows && devices.named("tpm") == nil {
		d.option("tpm", false)
	}
	for _, n := range devices.named("graphics") {
		d.display(n)
	}
	redirects := devices.named("redirdev")
	if spice := d.spice(); spice != nil && len(redirects) != defaultRedirects {
		count := len(redirects)
		spice.USBRedirects = &count
	}
	for _, n := range devices.children {
		n.see()
		d.drop(n.one("alias"), "libvirt's name of a device")
		switch n.name {
		case "disk":
			d.disk(n)
		case "interface":
			d.network(n)
		case "graphics": // they are read
		case "video":
			d.video(n, devices)
		case "tpm":
			d.tpm(n)
		case "serial", "console", "parallel", "channel":
			d.port(n)
		case "watchdog", "panic", "memballoon", "rng", "input", "sound":
			d.small(n)
		default:
			d.hostDevice(n, devices)
		}
	}
	d.nbdLast()
}

// defaultRedirects is what vm.display.spice.usbRedirects is by default.
const defaultRedirects = 2

func (d *domain) spice() *vmspec.Spice {
	if d.vm().Display == nil {
		return nil
	}
	return d.vm().Display.Spice
}

// nbdLast moves the disks that come when the guest runs to the end.
func (d *domain) nbdLast() {
	var drives [2][]vmspec.Drive
	var nodes [2][]*node
	for i, drive := range d.vm().Drives {
		at := 0
		if drive.NBD != nil {
			at = 1
		}
		drives[at], nodes[at] = append(drives[at], drive), append(nodes[at], d.disks[i])
	}
	d.vm().Drives = append(drives[0], drives[1]...)
	d.disks = append(nodes[0], nodes[1]...)
	for i, n := range d.disks {
		d.keep(n, fmt.Sprintf("vm.drives[%d]", i))
	}
}

// display reads a way to the screen.
func (d *domain) display(n *node) {
	n.see()
	kind := n.attribute("type")
	if d.config.VMType == "cloud" || d.config.VMType == "microvm" {
		d.drop(n, "the VM type "+d.typeName()+" has no screen")
		return
	}
	if d.vm().Display == nil {
		d.vm().Display = &vmspec.Display{}
	}
	address, port, isAuto := n.listen(), 0, n.get("autoport") == "yes"
	if text := n.get("port"); text != "" && text != "-1" && !isAuto {
		port = d.count(n.attribute("port"), "the port")
	}
	switch kind.value() {
	case "spice":
		d.vm().Display.Spice = &vmspec.Spice{Port: port, Address: address}
		d.keep(n, "vm.display.spice")
		d.spiceParts(n)
	case "vnc":
		vnc := &vmspec.VNC{Port: port}
		if d.vm().Display.VNC = vnc; port != 0 && address != "127.0.0.1" {
			vnc.Address = address
		}
		d.drop(n.attribute("websocket"), "the pages have the screen: docs/web.md")
		d.drop(n.attribute("sharePolicy"), "QEMU's default")
		d.drop(n.attribute("powerControl"), "QEMU's default")
		if port == 0 {
			d.change(n, "vm.display.vnc, on a unix socket",
				"vmrunner view connects to it; vm.display.vnc.port has a port")
		} else {
			d.keep(n, "vm.display.vnc")
		}
	case "egl-headless", "sdl", "dbus", "rdp", "desktop":
		n.seeAll()
		d.change(n, "there is no display by "+kind.text, "vm.display.vnc or spice")
	default:
		d.block(n, "a display by "+kind.value()+" is not known here", "")
	}
	if isExposed := address != "127.0.0.1" && address != "::1"; isExposed && n.attribute("passwd") == nil &&
		(d.spice() != nil || port != 0) {
		d.change(n, "it listens on addresses that others reach, and has no password: the VM won't start so",
			"the file display-password beside the configuration, or vm.display.withoutPassword: docs/security.md#passwords")
	}
	d.password(n)
	d.drop(n.attribute("keymap"), "the viewer's matter")
}

// password reports passwords, without a word of them.
func (d *domain) password(n *node) {
	if a := n.attribute("passwd"); a != nil {
		d.change(a, "the password is not in the configuration",
			"write it to the file display-password beside the configuration, mode 0600: docs/security.md#passwords")
	}
	if a := n.attribute("passwdValidTo"); a != nil {
		d.change(a, "the password's expiry is not in the configuration", "write it to the file password-expiry")
	}
	if a := n.attribute("connected"); a != nil {
		d.change(a, "a further viewer of a password takes the place of the first, or not, as QEMU has it", "")
	}
}

// listen returns the address that a display listens on.
func (n *node) listen() string {
	address := n.get("listen")
	for _, l := range n.all("listen") {
		if kind := l.get("type"); kind == "address" || kind == "" {
			if text := l.get("address"); text != "" {
				address = text
			}
		}
		l.get("socket")
	}
	switch address {
	case "":
		return "127.0.0.1"
	case "0.0.0.0":
		return "" // every address
	}
	return address
}

func (d *domain) spiceParts(n *node) {
	if tls := n.attribute("tlsPort"); tls != nil && tls.text != "-1" {
		d.change(tls, "the connection isn't encrypted", "docs/security.md")
	}
	for _, child := range n.children {
		switch child.name {
		case "streaming":
			d.spice().StreamingVideo = child.get("mode")
			d.keep(child, "vm.display.spice.streamingVideo")
		case "image", "jpeg", "zlib", "playback", "mouse", "channel":
			d.drop(child, "SPICE's default")
		case "clipboard", "filetransfer":
			if child.seeAll(); child.get("copypaste") == "no" || child.get("enable") == "no" {
				d.change(child, child.name+" was off, and is on", "a VM type of your own with disable-copy-paste=on, "+
					"disable-agent-file-xfer=on: docs/vm-types/restrict.md")
			}
		case "gl":
			if child.seeAll(); child.get("enable") == "yes" {
				d.change(child, "the guest's screen has no OpenGL", "docs/vm-types/gpu.md")
			}
		}
	}
}

// video reads the card.
func (d *domain) video(n, devices *node) {
	model := n.one("model")
	kind := model.attribute("type")
	switch value := kind.value(); {
	case n != devices.named("video")[0]:
		d.drop(n, "there is one card, with vm.display.outputs")
		return
	case d.windows && value == "qxl":
		d.option("video", "qxl")
		d.keep(kind, "vm.options.video: qxl")
	case d.pc && value == "cirrus":
		d.option("video", "cirrus")
		d.keep(kind, "vm.options.video: cirrus")
	case d.pc && value == "vga", !d.pc && value == "virtio", value == "none" && d.vm().Display == nil:
		d.keep(kind, "the card of the VM type "+d.typeName())
	default:
		d.change(kind, value+" becomes the card of the VM type "+d.typeName(), "")
	}
	if heads := model.attribute("heads"); heads != nil && d.vm().Display != nil {
		if outputs := d.count(heads, "vm.display.outputs"); outputs > 1 {
			d.vm().Display.Outputs = outputs
		}
	}
	if a := model.one("acceleration"); a != nil {
		if a.seeAll(); a.get("accel3d") == "yes" {
			d.change(a, "the card has no 3D", "docs/vm-types/gpu.md")
		}
	}
	for _, name := range []string{"ram", "vram", "vram64", "vgamem", "primary", "blob", "edid", "heads"} {
		if a := model.attribute(name); name != "primary" && name != "heads" {
			d.drop(a, "the VM type's matter")
		}
	}
	for _, child := range []*node{model.one("resolution"), n.one("driver"), n.one("address")} {
		d.drop(child, "the VM type's matter")
	}
}

func (d *domain) tpm(n *node) {
	backend := n.one("backend")
	kind, version := backend.get("type"), backend.get("version")
	if kind != "emulator" || version == "1.2" {
		d.block(n, "want an emulated TPM 2.0, not "+kind+" "+version, "")
		return
	}
	if model := n.attribute("model"); model.value() == "tpm-crb" {
		d.change(model, "tpm-tis in place of tpm-crb: the guest has drivers for both", "")
	} else {
		d.keep(model, "vm.useTpm")
	}
	if !d.windows {
		d.vm().UseTPM = true
	}
	if e := backend.one("encryption"); e != nil {
		e.seeAll()
		d.change(e, "the TPM's state isn't encrypted, and can't be taken over", "")
	}
	backend.seeAll()
	d.drop(n.one("address"), "the VM type gives each device its place")
	d.change(n, "vm.useTpm; its state is elsewhere", "copy it: docs/vm-types/from-libvirt.md#state")
}

// small reads devices that a VM has without being asked for, or by an option.
func (d *domain) small(n *node) {
	switch model := n.get("model"); {
	case n.name == "watchdog" && model == "itco":
		d.drop(n, "the machine's own")
	case n.name == "watchdog":
		action := n.get("action")
		switch action {
		case "reset", "shutdown", "poweroff", "pause", "none":
		case "":
			action = "reset"
		default:
			d.change(n.attribute("action"), "shutdown", "")
			action = "shutdown"
		}
		if d.option("watchdog", action); model == "i6300esb" {
			d.keep(n, "vm.options.watchdog")
		} else {
			d.change(n, "vm.options.watchdog, which is an i6300esb", "")
		}
	case n.name == "panic":
		d.keep(n, "always there; vm.options.panic")
	case n.name == "memballoon" && model == "none" && d.pc:
		d.keep(n, "there is none")
	case n.name == "memballoon" && model == "none":
		d.change(n, "there is a balloon", "")
	case n.name == "memballoon", n.name == "rng":
		if d.pc {
			d.option("virtio", true)
		}
		d.keep(n, "always there")
		d.drop(n.one("rate"), "there is no limit")
	case n.name == "input" && (n.get("type") == "evdev" || n.get("type") == "passthrough"):
		d.block(n, "an input device of the host is a VM type's matter", "docs/vm-types/add-device.md")
	case n.name == "input":
		d.keep(n, "always there, if there is a screen")
	case n.name == "sound" && d.spice() != nil:
		d.keep(n, "comes with SPICE")
	default:
		n.seeAll()
		d.change(n, "there is no sound without SPICE", "vm.display.spice")
	}
	n.get("type")
	n.get("bus")
	d.parts(n, "address", "driver", "stats", "backend", "codec", "audio", "source")
}

// parts reports parts of a device that are the VM type's matter.
func (d *domain) parts(n *node, names ...string) {
	for _, name := range names {
		for _, part := range n.named(name) {
			if !part.seen {
				d.drop(part, "the VM type's matter")
			}
		}
	}
}

// port reads ports by which the guest talks.
func (d *domain) port(n *node) {
	kind, target := n.get("type"), n.one("target")
	name, isLog := target.get("name"), n.one("log") != nil
	isSerial := n.name == "serial" || n.name == "console" &&
		(target.get("type") == "serial" || target.get("type") == "")
	number, _ := strconv.Atoi(target.get("port"))
	switch {
	case n.name == "channel" && (name == "org.qemu.guest_agent.0" || name == "com.redhat.spice.0"):
		if d.pc {
			d.option("virtio", true)
		}
		d.keep(n, "always there")
	case n.name == "channel" && kind == "spiceport":
		n.seeAll()
		d.change(n, "SPICE's shared folder isn't there", "")
	case isSerial && number == 0 && kind == "file":
		d.vm().SerialConsole = &vmspec.SerialConsole{Log: n.one("source").get("path")}
		d.keep(n, "vm.serialConsole.log")
	case isSerial && number == 0 && (kind == "pty" || kind == ""):
		if isLog {
			d.vm().SerialConsole = &vmspec.SerialConsole{Log: n.one("log").get("file")}
			d.keep(n.one("log"), "vm.serialConsole.log")
		}
		d.keep(n, "always there: vmrunner console")
	case isSerial && number == 0, n.name == "console":
		n.seeAll()
		d.change(n, "the guest's console is its first serial port: vmrunner console", "console=ttyS0 in the guest")
	default:
		d.block(n, "such a port is a VM type's matter", "docs/vm-types/add-device.md")
	}
	if target != nil {
		target.seeAll()
	}
	n.get("tty")
	n.one("source").get("append")
	for _, name := range []string{"mode", "path", "tty"} { // of the socket that libvirt makes
		n.one("source").get(name)
	}
	d.parts(n, "address", "protocol", "log")
}

// hostDevice reads devices that only VM types of one's own have, and libvirt's own matters.
func (d *domain) hostDevice(n, devices *node) {
	const examples = "docs/vm-types/from-libvirt.md names an example; begin with: vmrunner vmtype new NAME"
	switch n.name {
	case "emulator":
		d.drop(n, "the VM type chooses QEMU's program")
		n.value()
	case "controller", "hub", "audio":
		d.drop(n, "the VM type gives each device its place")
	case "iommu":
		d.drop(n, "the VM type's matter")
	case "redirdev":
		if n.seeAll(); d.spice() != nil {
			d.keep(n, "vm.display.spice.usbRedirects")
		} else {
			d.drop(n, "comes with SPICE only")
		}
	case "redirfilter":
		n.seeAll()
		d.change(n, "there is no filter for USB devices", "vm.display.spice.usbRedirects: 0 allows none")
	case "hostdev":
		d.block(n, "a device of the host is the matter of a VM type", "the example type passthrough: docs/vm-types/gpu.md")
	case "filesystem":
		d.block(n, "a shared folder is the matter of a VM type", "the example type shares: docs/vm-types/share-folder.md")
	case "vsock":
		d.block(n, "a vsock is the matter of a VM type", "the example type vsock: "+examples)
	case "memory":
		d.block(n, "a memory device is the matter of a VM type", "the example type virtiomem: "+examples)
	case "shmem", "smartcard", "nvram", "crypto", "pstore", "lease":
		d.block(n, "a "+n.name+" is the matter of a VM type", "docs/vm-types/add-device.md")
	default:
		n.seen = false // unknown
	}
}
