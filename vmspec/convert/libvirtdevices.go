package convert

import (
	"fmt"
	"strconv"

	"vmop/vmspec"
)

// readDevices reads all devices.
func (d *domain) readDevices(devices *node) {
	if devices == nil {
		return
	}
	d.chooseBus(devices)
	if d.windows && devices.childrenNamed("tpm") == nil {
		d.setOption("tpm", false)
	}
	for _, n := range devices.childrenNamed("graphics") {
		d.readDisplay(n)
	}
	redirects := devices.childrenNamed("redirdev")
	if spice := d.spiceDisplay(); spice != nil && len(redirects) != defaultRedirects {
		count := len(redirects)
		spice.USBRedirects = &count
	}
	for _, n := range devices.children {
		n.markSeen()
		d.dropPart(n.firstChild("alias"), "libvirt's name of a device")
		switch n.name {
		case "disk":
			d.readDisk(n)
		case "interface":
			d.readNetwork(n)
		case "graphics": // already read
		case "video":
			d.readVideo(n, devices)
		case "tpm":
			d.readTPM(n)
		case "serial", "console", "parallel", "channel":
			d.readPort(n)
		case "watchdog", "panic", "memballoon", "rng", "input", "sound":
			d.readSmallDevice(n)
		default:
			d.hostDevice(n, devices)
		}
	}
	d.nbdLast()
}

// defaultRedirects is the default of vm.display.spice.usbRedirects.
const defaultRedirects = 2

func (d *domain) spiceDisplay() *vmspec.Spice {
	if d.vmSection().Display == nil {
		return nil
	}
	return d.vmSection().Display.Spice
}

// nbdLast moves the NBD disks to the end, because the guest gets them while it is running.
func (d *domain) nbdLast() {
	var drives [2][]vmspec.Drive
	var nodes [2][]*node
	for i, drive := range d.vmSection().Drives {
		at := 0
		if drive.NBD != nil {
			at = 1
		}
		drives[at], nodes[at] = append(drives[at], drive), append(nodes[at], d.disks[i])
	}
	d.vmSection().Drives = append(drives[0], drives[1]...)
	d.disks = append(nodes[0], nodes[1]...)
	for i, n := range d.disks {
		d.keepPart(n, fmt.Sprintf("vm.drives[%d]", i))
	}
}

// readDisplay reads a display.
func (d *domain) readDisplay(n *node) {
	n.markSeen()
	kind := n.attributeNode("type")
	if d.config.VMType == "cloud" || d.config.VMType == "microvm" {
		d.dropPart(n, "the VM type "+d.typeName()+" has no screen")
		return
	}
	if d.vmSection().Display == nil {
		d.vmSection().Display = &vmspec.Display{}
	}
	address, port, isAuto := n.listenAddress(), 0, n.attributeValue("autoport") == "yes"
	if text := n.attributeValue("port"); text != "" && text != "-1" && !isAuto {
		port = d.readCount(n.attributeNode("port"), "the port")
	}
	switch kind.textValue() {
	case "spice":
		d.vmSection().Display.Spice = &vmspec.Spice{Port: port, Address: address}
		d.keepPart(n, "vm.display.spice")
		d.spiceParts(n)
	case "vnc":
		vnc := &vmspec.VNC{Port: port}
		if d.vmSection().Display.VNC = vnc; port != 0 && address != "127.0.0.1" {
			vnc.Address = address
		}
		d.dropPart(n.attributeNode("websocket"), "the pages have the screen: docs/tasks/web.md")
		d.dropPart(n.attributeNode("sharePolicy"), "QEMU's default")
		d.dropPart(n.attributeNode("powerControl"), "QEMU's default")
		if port == 0 {
			d.changePart(n, "vm.display.vnc, on a unix socket",
				"vmrunner view connects to it; vm.display.vnc.port has a port")
		} else {
			d.keepPart(n, "vm.display.vnc")
		}
	case "egl-headless", "sdl", "dbus", "rdp", "desktop":
		n.seeAll()
		d.changePart(n, "there is no display by "+kind.text, "vm.display.vnc or spice")
	default:
		d.blockPart(n, "a display by "+kind.textValue()+" is not known here", "")
	}
	if isExposed := address != "127.0.0.1" && address != "::1"; isExposed && n.attributeNode("passwd") == nil &&
		(d.spiceDisplay() != nil || port != 0) {
		d.changePart(n, "it listens on addresses that others reach, and has no password: the VM won't start so",
			"the file display-password next to the configuration, or vm.display.withoutPassword: "+
				"docs/concepts/security.md#passwords")
	}
	d.reportPassword(n)
	d.dropPart(n.attributeNode("keymap"), "the viewer's matter")
}

// reportPassword reports passwords without showing them.
func (d *domain) reportPassword(n *node) {
	if a := n.attributeNode("passwd"); a != nil {
		d.changePart(a, "the password is not in the configuration",
			"write it to the file display-password next to the configuration, mode 0600: "+
				"docs/concepts/security.md#passwords")
	}
	if a := n.attributeNode("passwdValidTo"); a != nil {
		d.changePart(a, "the password's expiry is not in the configuration", "write it to the file password-expiry")
	}
	if a := n.attributeNode("connected"); a != nil {
		d.changePart(a, "whether another viewer with the password replaces the first is QEMU's default", "")
	}
}

// listenAddress returns the listening address of a display.
func (n *node) listenAddress() string {
	address := n.attributeValue("listen")
	for _, l := range n.takeChildren("listen") {
		if kind := l.attributeValue("type"); kind == "address" || kind == "" {
			if text := l.attributeValue("address"); text != "" {
				address = text
			}
		}
		l.attributeValue("socket")
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
	if tls := n.attributeNode("tlsPort"); tls != nil && tls.text != "-1" {
		d.changePart(tls, "the connection isn't encrypted", "docs/concepts/security.md")
	}
	for _, child := range n.children {
		switch child.name {
		case "streaming":
			d.spiceDisplay().StreamingVideo = child.attributeValue("mode")
			d.keepPart(child, "vm.display.spice.streamingVideo")
		case "image", "jpeg", "zlib", "playback", "mouse", "channel":
			d.dropPart(child, "SPICE's default")
		case "clipboard", "filetransfer":
			if child.seeAll(); child.attributeValue("copypaste") == "no" || child.attributeValue("enable") == "no" {
				d.changePart(child, child.name+" was off, and is on",
					"your own VM type with disable-copy-paste=on, "+
						"disable-agent-file-xfer=on: docs/vm-types/restrict.md")
			}
		case "gl":
			if child.seeAll(); child.attributeValue("enable") == "yes" {
				d.changePart(child, "the guest's screen has no OpenGL", "docs/vm-types/gpu.md")
			}
		}
	}
}

// readVideo reads the video card.
func (d *domain) readVideo(n, devices *node) {
	model := n.firstChild("model")
	kind := model.attributeNode("type")
	switch value := kind.textValue(); {
	case n != devices.childrenNamed("video")[0]:
		d.dropPart(n, "there is one card, with vm.display.outputs")
		return
	case d.windows && value == "qxl":
		d.setOption("video", "qxl")
		d.keepPart(kind, "vm.options.video: qxl")
	case d.pc && value == "cirrus":
		d.setOption("video", "cirrus")
		d.keepPart(kind, "vm.options.video: cirrus")
	case d.pc && value == "vga", !d.pc && value == "virtio", value == "none" && d.vmSection().Display == nil:
		d.keepPart(kind, "the card of the VM type "+d.typeName())
	default:
		d.changePart(kind, value+" becomes the card of the VM type "+d.typeName(), "")
	}
	if heads := model.attributeNode("heads"); heads != nil && d.vmSection().Display != nil {
		if outputs := d.readCount(heads, "vm.display.outputs"); outputs > 1 {
			d.vmSection().Display.Outputs = outputs
		}
	}
	if a := model.firstChild("acceleration"); a != nil {
		if a.seeAll(); a.attributeValue("accel3d") == "yes" {
			d.changePart(a, "the card has no 3D", "docs/vm-types/gpu.md")
		}
	}
	for _, name := range []string{"ram", "vram", "vram64", "vgamem", "primary", "blob", "edid", "heads"} {
		if a := model.attributeNode(name); name != "primary" && name != "heads" {
			d.dropPart(a, "the VM type's matter")
		}
	}
	for _, child := range []*node{model.firstChild("resolution"), n.firstChild("driver"), n.firstChild("address")} {
		d.dropPart(child, "the VM type's matter")
	}
}

func (d *domain) readTPM(n *node) {
	backend := n.firstChild("backend")
	kind, version := backend.attributeValue("type"), backend.attributeValue("version")
	if kind != "emulator" || version == "1.2" {
		d.blockPart(n, "must be an emulated TPM 2.0, not "+kind+" "+version, "")
		return
	}
	if model := n.attributeNode("model"); model.textValue() == "tpm-crb" {
		d.changePart(model, "tpm-tis instead of tpm-crb: the guest has drivers for both", "")
	} else {
		d.keepPart(model, "vm.useTpm")
	}
	if !d.windows {
		d.vmSection().UseTPM = true
	}
	if e := backend.firstChild("encryption"); e != nil {
		e.seeAll()
		d.changePart(e, "the TPM's state isn't encrypted, and can't be taken over", "")
	}
	backend.seeAll()
	d.dropPart(n.firstChild("address"), "the VM type gives each device its place")
	d.changePart(n, "vm.useTpm; its state is elsewhere", "copy it: docs/vm-types/from-libvirt.md#state")
}

// readSmallDevice reads devices that a VM always has, or has with an option.
func (d *domain) readSmallDevice(n *node) {
	switch model := n.attributeValue("model"); {
	case n.name == "watchdog" && model == "itco":
		d.dropPart(n, "the machine's own")
	case n.name == "watchdog":
		action := n.attributeValue("action")
		switch action {
		case "reset", "shutdown", "poweroff", "pause", "none":
		case "":
			action = "reset"
		default:
			d.changePart(n.attributeNode("action"), "shutdown", "")
			action = "shutdown"
		}
		if d.setOption("watchdog", action); model == "i6300esb" {
			d.keepPart(n, "vm.options.watchdog")
		} else {
			d.changePart(n, "vm.options.watchdog, which is an i6300esb", "")
		}
	case n.name == "panic":
		d.keepPart(n, "always there; vm.options.panic")
	case n.name == "memballoon" && model == "none" && d.pc:
		d.keepPart(n, "there is none")
	case n.name == "memballoon" && model == "none":
		d.changePart(n, "there is a balloon", "")
	case n.name == "memballoon", n.name == "rng":
		if d.pc {
			d.setOption("virtio", true)
		}
		d.keepPart(n, "always there")
		d.dropPart(n.firstChild("rate"), "there is no limit")
	case n.name == "input" && (n.attributeValue("type") == "evdev" || n.attributeValue("type") == "passthrough"):
		d.blockPart(n, "an input device of the host is a VM type's matter", "docs/vm-types/add-device.md")
	case n.name == "input":
		d.keepPart(n, "always there, if there is a screen")
	case n.name == "sound" && d.spiceDisplay() != nil:
		d.keepPart(n, "comes with SPICE")
	default:
		n.seeAll()
		d.changePart(n, "there is no sound without SPICE", "vm.display.spice")
	}
	n.attributeValue("type")
	n.attributeValue("bus")
	d.reportParts(n, "address", "driver", "stats", "backend", "codec", "audio", "source")
}

// reportParts reports parts of a device that the VM type determines.
func (d *domain) reportParts(n *node, names ...string) {
	for _, name := range names {
		for _, part := range n.childrenNamed(name) {
			if !part.seen {
				d.dropPart(part, "the VM type's matter")
			}
		}
	}
}

// readPort reads serial ports and channels.
func (d *domain) readPort(n *node) {
	kind, target := n.attributeValue("type"), n.firstChild("target")
	name, isLog := target.attributeValue("name"), n.firstChild("log") != nil
	isSerial := n.name == "serial" || n.name == "console" &&
		(target.attributeValue("type") == "serial" || target.attributeValue("type") == "")
	number, _ := strconv.Atoi(target.attributeValue("port"))
	switch {
	case n.name == "channel" && (name == "org.qemu.guest_agent.0" || name == "com.redhat.spice.0"):
		if d.pc {
			d.setOption("virtio", true)
		}
		d.keepPart(n, "always there")
	case n.name == "channel" && kind == "spiceport":
		n.seeAll()
		d.changePart(n, "SPICE's shared folder is missing", "")
	case isSerial && number == 0 && kind == "file":
		d.vmSection().SerialConsole = &vmspec.SerialConsole{Log: n.firstChild("source").attributeValue("path")}
		d.keepPart(n, "vm.serialConsole.log")
	case isSerial && number == 0 && (kind == "pty" || kind == ""):
		if isLog {
			d.vmSection().SerialConsole = &vmspec.SerialConsole{Log: n.firstChild("log").attributeValue("file")}
			d.keepPart(n.firstChild("log"), "vm.serialConsole.log")
		}
		d.keepPart(n, "always there: vmrunner console")
	case isSerial && number == 0, n.name == "console":
		n.seeAll()
		d.changePart(n, "the guest's console is its first serial port: vmrunner console", "console=ttyS0 in the guest")
	default:
		d.blockPart(n, "such a port is a VM type's matter", "docs/vm-types/add-device.md")
	}
	if target != nil {
		target.seeAll()
	}
	n.attributeValue("tty")
	n.firstChild("source").attributeValue("append")
	for _, name := range []string{"mode", "path", "tty"} { // of the socket that libvirt creates
		n.firstChild("source").attributeValue(name)
	}
	d.reportParts(n, "address", "protocol", "log")
}

// hostDevice reads devices that need a custom VM type, and libvirt's own settings.
func (d *domain) hostDevice(n, devices *node) {
	const examples = "docs/vm-types/from-libvirt.md names an example; begin with: vmrunner vmtype new NAME"
	switch n.name {
	case "emulator":
		d.dropPart(n, "the VM type chooses QEMU's program")
		n.textValue()
	case "controller", "hub", "audio":
		d.dropPart(n, "the VM type gives each device its place")
	case "iommu":
		d.dropPart(n, "the VM type's matter")
	case "redirdev":
		if n.seeAll(); d.spiceDisplay() != nil {
			d.keepPart(n, "vm.display.spice.usbRedirects")
		} else {
			d.dropPart(n, "comes with SPICE only")
		}
	case "redirfilter":
		n.seeAll()
		d.changePart(n, "there is no filter for USB devices", "vm.display.spice.usbRedirects: 0 allows none")
	case "hostdev":
		d.blockPart(n, "a device of the host is the matter of a VM type", "the example type passthrough: "+
			"docs/vm-types/gpu.md")
	case "filesystem":
		d.blockPart(n, "a shared folder is the matter of a VM type", "the example type shares: "+
			"docs/vm-types/share-folder.md")
	case "vsock":
		d.blockPart(n, "a vsock is the matter of a VM type", "the example type vsock: "+examples)
	case "memory":
		d.blockPart(n, "a memory device is the matter of a VM type", "the example type virtiomem: "+examples)
	case "shmem", "smartcard", "nvram", "crypto", "pstore", "lease":
		d.blockPart(n, "a "+n.name+" is the matter of a VM type", "docs/vm-types/add-device.md")
	default:
		n.seen = false // unknown
	}
}
