package comingfrom

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

func (q *quickemu) read(root *node) {
	q.root = root
	root.see()
	q.vm().Name = strings.TrimSuffix(filepath.Base(q.file), ".conf")
	q.find(Kept, &node{line: 1}, "vm.name: the name of the file, "+q.vm().Name, "")
	q.onlyLast()
	q.guestOS()
	q.sizes()
	q.firmware()
	q.disks()
	q.net()
	q.screen()
	q.others()
}

// onlyLast reports assignments that a later one replaces.
func (q *quickemu) onlyLast() {
	last := map[string]*node{}
	for _, n := range q.root.children {
		if former := last[n.name]; former != nil {
			former.gone = true
			q.drop(former, fmt.Sprintf("is assigned again on line %d", n.line))
		}
		last[n.name] = n
	}
	q.root.remove()
}

// given returns an assignment that isn't empty; nil if there is none.
func (q *quickemu) given(name string) *node { return q.conversion.given(q.root, name) }

func (q *quickemu) guestOS() {
	n := q.given("guest_os")
	q.guest = cmp.Or(n.value(), "linux")
	switch q.guest {
	case "windows", "windows-server":
		q.windows, q.config.VMType = true, "windows"
	case "freedos", "kolibrios", "reactos":
		q.config.VMType = "pc"
	case "macos":
		q.find(Blocks, n, "no stock type is for macOS", "a VM type of your own: docs/vm-types/tutorial.md")
		return
	}
	q.keep(n, "the VM type "+cmp.Or(q.config.VMType, "standard"))
	if a := q.given("arch"); a.value() == "aarch64" || a.value() == "arm64" {
		q.config.VMType = "arm64"
		q.keep(a, "the VM type arm64")
	} else if a.value() == "x86_64" {
		q.keep(a, "the VM type's")
	} else if a != nil {
		q.find(Blocks, a, "no stock type is for "+a.value(), "")
	}
}

// mebiBits is how many bits a number without a unit is shifted by: QEMU takes it for MiB.
const mebiBits = 20

// sizes reads CPUs and RAM, which quickemu chooses by the computer if nothing is said.
func (q *quickemu) sizes() {
	const chosen = "quickemu chooses it by the computer: here it is "
	q.vm().MaximumCPUs, q.vm().MaximumRAM = 2, 4<<30
	if n := q.given("cpu_cores"); n == nil {
		q.find(Changes, &node{path: "cpu_cores", line: 1}, chosen+"2", "vm.maximumCpus")
	} else if count, err := strconv.Atoi(n.value()); err != nil || count < 1 {
		q.block(n, "want a number of at least 1", "")
	} else {
		q.vm().MaximumCPUs = count
		q.keep(n, "vm.maximumCpus")
	}
	n := q.given("ram")
	if n == nil {
		q.find(Changes, &node{path: "ram", line: 1}, chosen+"4 GiB", "vm.maximumRam")
		return
	}
	q.vm().MaximumRAM = q.binary(n, mebiBits, "vm.maximumRam")
}

func (q *quickemu) firmware() {
	boot, secure, tpm := q.given("boot"), q.given("secureboot"), q.given("tpm")
	isSecure, hasTPM := secure.value() == "on", tpm.value() == "on"
	kind := vmspec.FirmwareUEFI4M
	switch {
	case boot.value() == "legacy" || q.config.VMType == "pc":
		kind, isSecure = vmspec.FirmwareBIOS, false
	case isSecure:
		kind = vmspec.FirmwareSecure4M
	}
	q.vm().Firmware = kind
	to := "vm.firmware: " + string(kind)
	if boot != nil && boot.text != "legacy" && q.config.VMType == "pc" {
		q.change(boot, to+", as the VM type pc has no other", "")
	} else {
		q.keep(boot, to)
	}
	q.keep(secure, to)
	if kind != vmspec.FirmwareBIOS {
		q.find(Changes, &node{path: "boot", line: boot.lineOr(1)},
			"the firmware's variables are a file in the data directory",
			"copy OVMF_VARS.fd, beside the disk, to fw-vars.fd there, to keep them: docs/vm-types/from-libvirt.md#state")
	}
	switch {
	case q.windows:
		if !isSecure {
			q.option("secureBoot", false)
		}
		if !hasTPM {
			q.option("tpm", false)
		}
	case hasTPM:
		q.vm().UseTPM = true
	}
	if hasTPM {
		q.change(tpm, "vm.useTpm; its state is elsewhere", "copy tpm2-00.permall, beside the disk, to the data directory")
	} else {
		q.keep(tpm, "vm.useTpm")
	}
}

func (q *quickemu) disks() {
	n, format, size := q.given("disk_img"), q.given("disk_format"), q.given("disk_size")
	if n == nil {
		q.block(&node{line: 1}, "there is no disk_img", "")
		return
	}
	number := func(i int) *int { return &i }
	drive := vmspec.Drive{File: n.value(), Format: cmp.Or(format.value(), "qcow2"), Bootindex: number(1)}
	q.keep(n, "vm.drives[0], relative to the folder of this file")
	switch {
	case drive.Format == "raw" && size != nil:
		drive.Format, drive.Size = "", q.binary(size, mebiBits, "vm.drives[0].size")
	case drive.Format == "qcow2":
		q.drop(size, "the image must be there: qemu-img create -f qcow2 makes one")
	case drive.Format != "raw":
		q.block(format, "want raw or qcow2", "qemu-img convert -O qcow2 makes such an image")
	}
	q.keep(format, "vm.drives[0].format")
	q.vm().Drives = append(q.vm().Drives, drive)
	for _, name := range []string{"iso", "fixed_iso"} {
		cd := q.given(name)
		if cd == nil {
			continue
		}
		at := len(q.vm().Drives)
		q.vm().Drives = append(q.vm().Drives, vmspec.Drive{
			Type: vmspec.DriveIDECD, File: cd.value(), Bootindex: number(at + 1),
		})
		if to := fmt.Sprintf("vm.drives[%d]", at); name == "iso" {
			q.change(cd, to+", also when the guest is installed; the disk is booted from first", "")
		} else {
			q.keep(cd, to)
		}
	}
	if q.config.VMType == "pc" && len(q.vm().Drives) > 4 {
		q.block(n, "IDE has room for four drives", "")
	}
	for _, name := range []string{"img", "floppy"} {
		if n := q.given(name); n != nil {
			q.block(n, "such a medium is a VM type's matter", "docs/vm-types/add-device.md")
		}
	}
	q.drop(q.given("preallocation"), "the image is there")
}

// net reads the network: QEMU's own, or a bridge.
func (q *quickemu) net() {
	q.vm().Network = []vmspec.Network{}
	n, mac := q.given("network"), q.given("macaddr")
	ssh, forwards := q.given("ssh_port"), q.given("port_forwards")
	net := vmspec.Network{MAC: mac.value()}
	switch q.guest {
	case "windows-server", "reactos":
		net.Device = "e1000"
	case "batocera", "freedos", "haiku", "kolibrios":
		net.Device = "rtl8139"
	}
	switch n.value() {
	case "none":
		q.keep(n, "vm.network: []")
		for _, each := range []*node{mac, ssh, forwards} {
			q.drop(each, "there is no network")
		}
		return
	case "restrict":
		q.find(Blocks, n, "a network that leads nowhere is a VM type's matter",
			"network=\"none\", or docs/vm-types/restrict.md")
		return
	case "":
		net.Type = vmspec.NetworkUser
		q.network = &net
		q.ports(ssh, forwards)
	default:
		net.Bridge = n.text
		q.keep(n, "vm.network[0].bridge")
		q.drop(ssh, "the guest has an address of its own: vmrunner ssh")
		q.drop(forwards, "the guest has an address of its own")
	}
	q.keep(mac, "vm.network[0].mac")
	q.vm().Network = append(q.vm().Network, net)
}

// ports reads what leads to the guest: the port of ssh, and of others both protocols.
func (q *quickemu) ports(ssh, forwards *node) {
	if port, err := strconv.Atoi(ssh.value()); ssh != nil && err == nil {
		q.network.Ports = append(q.network.Ports, vmspec.PortForward{Host: port, Guest: 22})
		q.change(ssh, "vm.network[0].ports, on 127.0.0.1 only", "vm.network[0].ports[].address")
	} else {
		q.block(ssh, "want a port", "")
	}
	for _, item := range forwards.all("item") {
		host, guest, _ := strings.Cut(item.value(), ":")
		from, err := strconv.Atoi(host)
		to, err2 := strconv.Atoi(guest)
		if err != nil || err2 != nil {
			q.block(item, "want HOST:GUEST, two ports", "")
			continue
		}
		for _, protocol := range []string{"tcp", "udp"} {
			q.network.Ports = append(q.network.Ports, vmspec.PortForward{Protocol: protocol, Host: from, Guest: to})
		}
		q.change(item, "vm.network[0].ports, on 127.0.0.1 only", "vm.network[0].ports[].address")
	}
}

func (q *quickemu) screen() {
	display, port, access := q.given("display"), q.given("spice_port"), q.given("access")
	switch value := display.value(); {
	case value == "spice" || value == "spice-app" || port != nil:
		const usual = 5930
		number, err := strconv.Atoi(cmp.Or(port.value(), strconv.Itoa(usual)))
		if err != nil {
			q.block(port, "want a port", "")
		}
		q.vm().Display = &vmspec.Display{Spice: &vmspec.Spice{Address: "127.0.0.1", Port: number}}
		q.keep(port, "vm.display.spice.port")
		q.keep(display, "vm.display.spice")
	case value == "none":
		q.keep(display, "no vm.display")
	default:
		q.vm().Display = &vmspec.Display{VNC: &vmspec.VNC{}}
		q.find(Changes, &node{path: "display", line: display.lineOr(1)}, "no window opens by itself: vm.display.vnc",
			"vmrunner view opens one")
		display.see()
	}
	if access != nil && access.text != "local" {
		q.change(access, "the screen can be reached from this computer only", "vm.display.spice.address, with a password: "+
			"docs/security.md#passwords")
	} else {
		q.keep(access, "vm.display.spice.address: 127.0.0.1")
	}
}

// others reads what has no effect, and what a VM type would have to have.
func (q *quickemu) others() {
	for _, name := range []string{
		"viewer", "viewer_extra_args", "width", "height", "fullscreen", "screen", "screenpct", "braille", "gl",
	} {
		q.drop(q.given(name), "the viewer's matter")
	}
	for _, name := range []string{
		"monitor", "monitor_telnet_host", "monitor_telnet_port", "monitor_cmd", "serial", "serial_telnet_host",
		"serial_telnet_port",
	} {
		q.drop(q.given(name), "the runner has QEMU's monitor, and the serial port: vmrunner qmp, vmrunner console")
	}
	for _, name := range []string{
		"usb_controller", "keyboard", "keyboard_layout", "mouse", "sound_card", "sound_duplex", "macos_release",
		"ignore_msrs", "snapshot", "cpu_pinning",
	} {
		q.drop(q.given(name), "the VM type's matter")
	}
	if n := q.given("public_dir"); n.value() == "none" {
		q.keep(n, "no folder is shared")
	} else if n != nil {
		q.block(n, "a shared folder is the matter of a VM type", "the example type shares: docs/vm-types/share-folder.md")
	}
	if n := q.given("usb_devices"); n != nil {
		q.block(n, "devices of the host are the matter of a VM type", "USB by SPICE: vmrunner view; or docs/vm-types/gpu.md")
	}
	if n := q.given("extra_args"); n != nil {
		q.block(n, "QEMU's arguments are the matter of a VM type",
			"write each as option(…) in a type of your own: docs/vm-types/add-device.md")
	}
}
