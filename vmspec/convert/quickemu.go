package convert

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// quickemu reads the file NAME.conf of quickemu.
type quickemu struct {
	*conversion
	root    *node
	windows bool
	guest   string
	network *vmspec.Network
}

func (q *quickemu) readQuickemu(root *node) {
	q.root = root
	root.markSeen()
	q.vmSection().Name = strings.TrimSuffix(filepath.Base(q.file), ".conf")
	q.addFinding(Kept, &node{line: 1}, "vm.name: the name of the file, "+q.vmSection().Name, "")
	q.onlyLast()
	q.guestOS()
	q.readSizes()
	q.readFirmware()
	q.readDisks()
	q.readNet()
	q.readScreen()
	q.readOthers()
}

// onlyLast reports and removes assignments that a later assignment replaces.
func (q *quickemu) onlyLast() {
	last := map[string]*node{}
	for _, n := range q.root.children {
		if former := last[n.name]; former != nil {
			former.gone = true
			q.dropPart(former, fmt.Sprintf("is assigned again on line %d", n.line))
		}
		last[n.name] = n
	}
	q.root.removeGone()
}

// givenAssignment returns a non-empty assignment, or nil.
func (q *quickemu) givenAssignment(name string) *node { return q.conversion.givenPart(q.root, name) }

func (q *quickemu) guestOS() {
	n := q.givenAssignment("guest_os")
	q.guest = cmp.Or(n.textValue(), "linux")
	switch q.guest {
	case "windows", "windows-server":
		q.windows, q.config.VMType = true, "windows"
	case "freedos", "kolibrios", "reactos":
		q.config.VMType = "pc"
	case "macos":
		q.addFinding(Blocks, n, "no stock type is for macOS", "your own VM type: docs/vm-types/tutorial.md")
		return
	}
	q.keepPart(n, "the VM type "+cmp.Or(q.config.VMType, "standard"))
	if a := q.givenAssignment("arch"); a.textValue() == "aarch64" || a.textValue() == "arm64" {
		q.config.VMType = "arm64"
		q.keepPart(a, "the VM type arm64")
	} else if a.textValue() == "x86_64" {
		q.keepPart(a, "the VM type's")
	} else if a != nil {
		q.addFinding(Blocks, a, "no stock type is for "+a.textValue(), "")
	}
}

// mebiBits is the shift for a number without a unit, which QEMU takes as MiB.
const mebiBits = 20

// readSizes reads CPUs and RAM. By default, quickemu chooses them according to the computer.
func (q *quickemu) readSizes() {
	const chosen = "quickemu chooses it by the computer: here it is "
	q.vmSection().MaximumCPUs, q.vmSection().MaximumRAM = 2, 4<<30
	if n := q.givenAssignment("cpu_cores"); n == nil {
		q.addFinding(Changes, &node{path: "cpu_cores", line: 1}, chosen+"2", "vm.maximumCpus")
	} else if count, err := strconv.Atoi(n.textValue()); err != nil || count < 1 {
		q.blockPart(n, "must be a number of at least 1", "")
	} else {
		q.vmSection().MaximumCPUs = count
		q.keepPart(n, "vm.maximumCpus")
	}
	n := q.givenAssignment("ram")
	if n == nil {
		q.addFinding(Changes, &node{path: "ram", line: 1}, chosen+"4 GiB", "vm.maximumRam")
		return
	}
	q.vmSection().MaximumRAM = q.binarySize(n, mebiBits, "vm.maximumRam")
}

func (q *quickemu) readFirmware() {
	boot, secure, tpm := q.givenAssignment("boot"), q.givenAssignment("secureboot"), q.givenAssignment("tpm")
	isSecure, hasTPM := secure.textValue() == "on", tpm.textValue() == "on"
	kind := vmspec.FirmwareUEFI4M
	switch {
	case boot.textValue() == "legacy" || q.config.VMType == "pc":
		kind, isSecure = vmspec.FirmwareBIOS, false
	case isSecure:
		kind = vmspec.FirmwareSecure4M
	}
	q.vmSection().Firmware = kind
	to := "vm.firmware: " + string(kind)
	if boot != nil && boot.text != "legacy" && q.config.VMType == "pc" {
		q.changePart(boot, to+", as the VM type pc has no other", "")
	} else {
		q.keepPart(boot, to)
	}
	q.keepPart(secure, to)
	if kind != vmspec.FirmwareBIOS {
		q.addFinding(Changes, &node{path: "boot", line: boot.lineOr(1)},
			"the firmware's variables are a file in the data directory",
			"copy OVMF_VARS.fd, next to the disk, to fw-vars.fd there, to keep them: docs/vm-types/from-libvirt.md#state")
	}
	switch {
	case q.windows:
		if !isSecure {
			q.setOption("secureBoot", false)
		}
		if !hasTPM {
			q.setOption("tpm", false)
		}
	case hasTPM:
		q.vmSection().UseTPM = true
	}
	if hasTPM {
		q.changePart(tpm, "vm.useTpm; its state is elsewhere",
			"copy tpm2-00.permall, next to the disk, to the data directory")
	} else {
		q.keepPart(tpm, "vm.useTpm")
	}
}

func (q *quickemu) readDisks() {
	n, format, size := q.givenAssignment("disk_img"), q.givenAssignment("disk_format"), q.givenAssignment("disk_size")
	if n == nil {
		q.blockPart(&node{line: 1}, "there is no disk_img", "")
		return
	}
	number := func(i int) *int { return &i }
	drive := vmspec.Drive{File: n.textValue(), Format: cmp.Or(format.textValue(), "qcow2"), Bootindex: number(1)}
	q.keepPart(n, "vm.drives[0], relative to the folder of this file")
	switch {
	case drive.Format == "raw" && size != nil:
		drive.Format, drive.Size = "", q.binarySize(size, mebiBits, "vm.drives[0].size")
	case drive.Format == "qcow2":
		q.dropPart(size, "the image must exist: create one with qemu-img create -f qcow2")
	case drive.Format != "raw":
		q.blockPart(format, "must be raw or qcow2", "qemu-img convert -O qcow2 makes such an image")
	}
	q.keepPart(format, "vm.drives[0].format")
	q.vmSection().Drives = append(q.vmSection().Drives, drive)
	for _, name := range []string{"iso", "fixed_iso"} {
		cd := q.givenAssignment(name)
		if cd == nil {
			continue
		}
		at := len(q.vmSection().Drives)
		q.vmSection().Drives = append(q.vmSection().Drives, vmspec.Drive{
			Type: vmspec.DriveIDECD, File: cd.textValue(), Bootindex: number(at + 1),
		})
		if to := fmt.Sprintf("vm.drives[%d]", at); name == "iso" {
			q.changePart(cd, to+", even when the guest is installed; the disk is booted from first", "")
		} else {
			q.keepPart(cd, to)
		}
	}
	if q.config.VMType == "pc" && len(q.vmSection().Drives) > 4 {
		q.blockPart(n, "IDE has room for four drives", "")
	}
	for _, name := range []string{"img", "floppy"} {
		if n := q.givenAssignment(name); n != nil {
			q.blockPart(n, "such a medium is a VM type's matter", "docs/vm-types/add-device.md")
		}
	}
	q.dropPart(q.givenAssignment("preallocation"), "the image exists")
}

// readNet reads the network: QEMU's own, or a bridge.
func (q *quickemu) readNet() {
	q.vmSection().Network = []vmspec.Network{}
	n, mac := q.givenAssignment("network"), q.givenAssignment("macaddr")
	ssh, forwards := q.givenAssignment("ssh_port"), q.givenAssignment("port_forwards")
	net := vmspec.Network{MAC: mac.textValue()}
	switch q.guest {
	case "windows-server", "reactos":
		net.Device = "e1000"
	case "batocera", "freedos", "haiku", "kolibrios":
		net.Device = "rtl8139"
	}
	switch n.textValue() {
	case "none":
		q.keepPart(n, "vm.network: []")
		for _, each := range []*node{mac, ssh, forwards} {
			q.dropPart(each, "there is no network")
		}
		return
	case "restrict":
		q.addFinding(Blocks, n, "a network that leads nowhere is a VM type's matter",
			"network=\"none\", or docs/vm-types/restrict.md")
		return
	case "":
		net.Type = vmspec.NetworkUser
		q.network = &net
		q.readPorts(ssh, forwards)
	default:
		net.Bridge = n.text
		q.keepPart(n, "vm.network[0].bridge")
		q.dropPart(ssh, "the guest has its own address: vmrunner ssh")
		q.dropPart(forwards, "the guest has its own address")
	}
	q.keepPart(mac, "vm.network[0].mac")
	q.vmSection().Network = append(q.vmSection().Network, net)
}

// readPorts reads the port forwards: ssh_port for ssh, and port_forwards for both protocols.
func (q *quickemu) readPorts(ssh, forwards *node) {
	if port, err := strconv.Atoi(ssh.textValue()); ssh != nil && err == nil {
		q.network.Ports = append(q.network.Ports, vmspec.PortForward{Host: port, Guest: 22})
		q.changePart(ssh, "vm.network[0].ports, on 127.0.0.1 only", "vm.network[0].ports[].address")
	} else {
		q.blockPart(ssh, "must be a port", "")
	}
	for _, item := range forwards.takeChildren("item") {
		host, guest, _ := strings.Cut(item.textValue(), ":")
		from, err := strconv.Atoi(host)
		to, err2 := strconv.Atoi(guest)
		if err != nil || err2 != nil {
			q.blockPart(item, "must be HOST:GUEST, two ports", "")
			continue
		}
		for _, protocol := range []string{"tcp", "udp"} {
			q.network.Ports = append(q.network.Ports, vmspec.PortForward{Protocol: protocol, Host: from, Guest: to})
		}
		q.changePart(item, "vm.network[0].ports, on 127.0.0.1 only", "vm.network[0].ports[].address")
	}
}

func (q *quickemu) readScreen() {
	display, port, access := q.givenAssignment("display"), q.givenAssignment("spice_port"), q.givenAssignment("access")
	switch value := display.textValue(); {
	case value == "spice" || value == "spice-app" || port != nil:
		const usual = 5930
		number, err := strconv.Atoi(cmp.Or(port.textValue(), strconv.Itoa(usual)))
		if err != nil {
			q.blockPart(port, "must be a port", "")
		}
		q.vmSection().Display = &vmspec.Display{Spice: &vmspec.Spice{Address: "127.0.0.1", Port: number}}
		q.keepPart(port, "vm.display.spice.port")
		q.keepPart(display, "vm.display.spice")
	case value == "none":
		q.keepPart(display, "no vm.display")
	default:
		q.vmSection().Display = &vmspec.Display{VNC: &vmspec.VNC{}}
		q.addFinding(Changes, &node{path: "display", line: display.lineOr(1)},
			"no window opens by itself: vm.display.vnc",
			"vmrunner view opens one")
		display.markSeen()
	}
	if access != nil && access.text != "local" {
		q.changePart(access, "the screen can be reached from this computer only", "vm.display.spice.address, with a password: "+
			"docs/concepts/security.md#passwords")
	} else {
		q.keepPart(access, "vm.display.spice.address: 127.0.0.1")
	}
}

// readOthers reads the settings without an effect, and the settings that need a VM type.
func (q *quickemu) readOthers() {
	for _, name := range []string{
		"viewer", "viewer_extra_args", "width", "height", "fullscreen", "screen", "screenpct", "braille", "gl",
	} {
		q.dropPart(q.givenAssignment(name), "the viewer's matter")
	}
	for _, name := range []string{
		"monitor", "monitor_telnet_host", "monitor_telnet_port", "monitor_cmd", "serial", "serial_telnet_host",
		"serial_telnet_port",
	} {
		q.dropPart(q.givenAssignment(name), "the runner has QEMU's monitor, and the serial port: vmrunner qmp, vmrunner console")
	}
	for _, name := range []string{
		"usb_controller", "keyboard", "keyboard_layout", "mouse", "sound_card", "sound_duplex", "macos_release",
		"ignore_msrs", "snapshot", "cpu_pinning",
	} {
		q.dropPart(q.givenAssignment(name), "the VM type's matter")
	}
	if n := q.givenAssignment("public_dir"); n.textValue() == "none" {
		q.keepPart(n, "no folder is shared")
	} else if n != nil {
		q.blockPart(n, "a shared folder is the matter of a VM type", "the example type shares: docs/vm-types/share-folder.md")
	}
	if n := q.givenAssignment("usb_devices"); n != nil {
		q.blockPart(n, "devices of the host are the matter of a VM type", "USB by SPICE: vmrunner view; or docs/vm-types/gpu.md")
	}
	if n := q.givenAssignment("extra_args"); n != nil {
		q.blockPart(n, "QEMU's arguments are the matter of a VM type",
			"write each as option(…) in your own type: docs/vm-types/add-device.md")
	}
}
