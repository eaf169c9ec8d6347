package comingfrom

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// lima reads lima.yaml of an instance, whose disk is beside it, or a template, of which there is no disk yet.
type lima struct {
	*conversion
	root       *node
	isInstance bool
	arch       string
	network    vmspec.Network
}

func (l *lima) read(root *node) {
	l.root = root
	root.see()
	l.vm().Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(l.file), ".yaml"), ".yml")
	if l.isInstance = filepath.Base(l.file) == "lima.yaml"; l.isInstance {
		l.vm().Name = filepath.Base(filepath.Dir(l.file))
	}
	l.find(Kept, &node{line: 1}, "vm.name: the name of the file or its folder, "+l.vm().Name, "")
	l.network.Type = vmspec.NetworkUser
	l.machine()
	l.sizes()
	l.disks()
	l.guest()
	l.ssh(l.given(root, "ssh"))
	for _, forward := range l.given(root, "portForwards").all("item") {
		l.forward(forward)
	}
	l.networks()
	l.others()
}

func (l *lima) machine() {
	switch n := l.given(l.root, "vmType"); n.value() {
	case "", "qemu", "default":
		l.keep(n, "QEMU")
	case "vz", "krunkit":
		l.change(n, "QEMU, in place of "+n.text, "")
	default:
		l.find(Blocks, n, "an instance by "+n.text+" is no virtual machine of its own", "")
	}
	if n := l.given(l.root, "os"); n.value() != "Linux" {
		l.block(n, "want Linux, not "+n.value(), "")
	} else {
		l.keep(n, "the guest's matter")
	}
	arch := l.given(l.root, "arch")
	switch l.arch = arch.value(); l.arch {
	case "", "default":
		l.arch = "x86_64"
		l.find(Changes, &node{path: "arch", line: arch.lineOr(1)}, "the VM type standard, which is for x86_64",
			"vmType: arm64 if the instance was made on an arm64 computer")
	case "x86_64":
		l.keep(arch, "the VM type standard")
	case "aarch64":
		l.config.VMType = "arm64"
		l.keep(arch, "the VM type arm64")
	default:
		l.find(Blocks, arch, "no stock type is for "+arch.text, "a VM type of your own: docs/vm-types/tutorial.md")
	}
	firmware := l.given(l.root, "firmware")
	if n := l.given(firmware, "legacyBIOS"); n.value() == "true" && l.arch == "x86_64" {
		l.vm().Firmware = vmspec.FirmwareBIOS
		l.keep(n, "vm.firmware: bios")
	} else {
		l.keep(n, "vm.firmware: uefi, the default")
	}
	if n := l.given(firmware, "images"); n != nil {
		n.seeAll()
		l.change(n, "the firmware is the one that the runner finds", "docs/firmware.md")
	}
	models := l.given(l.root, "cpuType")
	if vmOpts := l.root.one("vmOpts").one("qemu"); models == nil {
		models = l.given(vmOpts, "cpuType")
	}
	for _, n := range models.childrenOrNone() {
		if n.name == l.arch && n.text != "" {
			l.vm().CPUModel = n.value()
			l.keep(n, "vm.cpuModel")
		} else {
			l.drop(n, "for another computer, or not set")
		}
	}
}

// childrenOrNone returns the children; those of nil are none.
func (n *node) childrenOrNone() []*node {
	if n == nil {
		return nil
	}
	return n.children
}

// sizes reads CPUs and RAM, which Lima chooses by the computer if nothing is said.
func (l *lima) sizes() {
	l.vm().MaximumCPUs, l.vm().MaximumRAM = 4, 4<<30
	if n := l.given(l.root, "cpus"); n == nil {
		l.find(Changes, &node{path: "cpus", line: 1}, "Lima takes at most 4, as the computer has them: here it is 4",
			"vm.maximumCpus")
	} else if count, err := strconv.Atoi(n.value()); err != nil || count < 1 {
		l.block(n, "want a number of at least 1", "")
	} else {
		l.vm().MaximumCPUs = count
		l.keep(n, "vm.maximumCpus")
	}
	if n := l.given(l.root, "memory"); n == nil {
		l.find(Changes, &node{path: "memory", line: 1}, "Lima takes at most 4 GiB, as the computer has it: here it is 4 GiB",
			"vm.maximumRam")
	} else {
		l.vm().MaximumRAM = l.binary(n, 0, "vm.maximumRam")
	}
}

func (l *lima) disks() {
	number := 1
	images, size := l.given(l.root, "images"), l.given(l.root, "disk")
	drive := vmspec.Drive{Bootindex: &number}
	if l.isInstance {
		drive.File, drive.Format = "diffdisk", "qcow2"
		if kind := l.root.one("vmType").value(); kind == "vz" || kind == "krunkit" {
			drive.Format = "raw"
		}
		l.find(Changes, &node{path: "images", line: images.lineOr(1)},
			"vm.drives[0]: the instance's disk diffdisk, of the format "+drive.Format, "qemu-img info diffdisk; newer versions "+
				"of Lima call it disk")
		l.drop(images, "the disk is made")
		l.drop(size, "the disk has its size")
	} else {
		drive.File = l.vm().Name + ".img"
		drive.Size = 100 << 30
		if size != nil {
			drive.Size = l.binary(size, 0, "vm.drives[0].size")
		}
		l.source(images, &drive)
	}
	l.vm().Drives = []vmspec.Drive{drive}
	for _, item := range l.given(l.root, "additionalDisks").all("item") {
		name := item.value()
		if n := l.given(item, "name"); n != nil {
			name = n.value()
		}
		if !l.isInstance || name == "" || strings.Contains(name, "/") {
			l.block(item, "there is no such disk yet", "vm.drives, with file and size")
			continue
		}
		l.drop(item.one("format"), "the disk is made")
		l.drop(item.one("fsType"), "the disk is made")
		l.change(item, fmt.Sprintf("vm.drives[%d], of the format qcow2; Lima's script in the guest doesn't mount it",
			len(l.vm().Drives)), "qemu-img info says the format; /etc/fstab in the guest")
		l.vm().Drives = append(l.vm().Drives, vmspec.Drive{
			File: filepath.Join("..", "_disks", name, "datadisk"), Format: "qcow2",
		})
	}
}

// source reads of what the disk is made: of the first image for the VM's processor.
func (l *lima) source(images *node, drive *vmspec.Drive) {
	blocked := l.result.Count(Blocks)
	for _, image := range images.all("item") {
		location, arch := l.given(image, "location"), l.given(image, "arch")
		switch {
		case drive.Source != "" || arch != nil && arch.value() != l.arch:
			l.drop(image, "for another computer, or there is one before")
		case image.one("kernel") != nil || image.one("initrd") != nil:
			l.block(image, "a kernel beside the image is vm.kernel", "fetch it, and write vm.kernel")
		case !strings.Contains(location.value(), "://"):
			l.block(image, "want the URL of an image, not "+location.value(),
				"an absolute path: file://…, or vm.drives[].source")
		default:
			drive.Source, drive.SourceChecksum = location.value(), image.one("digest").value()
			l.keep(location, "vm.drives[0].source")
			l.keep(arch, "the VM type's")
			l.keep(image.one("digest"), "vm.drives[0].sourceChecksum")
		}
	}
	if drive.Source == "" && l.result.Count(Blocks) == blocked {
		message := "there is no image for " + l.arch
		if base := l.root.one("base"); base != nil {
			message = "a template that is based on others isn't whole"
		}
		l.find(Blocks, &node{line: images.lineOr(1)}, message,
			"limactl template copy --fill TEMPLATE FILE makes a whole one")
	}
}

// guest reads what is done in the guest, which only Lima's own disk does, at each start.
func (l *lima) guest() {
	if l.isInstance {
		l.find(Changes, &node{path: "networks", line: 1}, "the card gets another hardware address, by which Lima's "+
			"configuration in the guest knows it", "vm.network[0].mac: what limactl shell "+l.vm().Name+
			" cat /sys/class/net/eth0/address prints")
	} else {
		l.find(Changes, &node{path: "user", line: 1}, "no user can log in yet: Lima makes one",
			"cloudInit.userData.users")
	}
	for _, name := range []string{"provision", "caCerts", "env", "containerd"} {
		n := l.given(l.root, name)
		switch {
		case n == nil:
		case name == "containerd" && n.one("system").value() != "true" && n.one("user").value() != "true":
			l.drop(n, "is off")
		case l.isInstance:
			n.seeAll()
			l.change(n, "it is in the guest already; Lima repeats it at each start, which is no longer done", "")
		default:
			l.block(n, "what is done in the guest is cloud-init's matter", "cloudInit.userData: docs/cloud-init.md")
		}
	}
	for _, name := range []string{"mounts", "mountInotify"} {
		if n := l.given(l.root, name); n != nil && n.text != "false" {
			l.block(n, "a shared folder is the matter of a VM type",
				"the example type shares: docs/vm-types/share-folder.md")
		}
	}
}

func (l *lima) ssh(n *node) {
	if port := l.given(n, "localPort"); port != nil && port.text != "0" {
		number, err := strconv.Atoi(port.value())
		if err != nil {
			l.block(port, "want a port", "")
		}
		l.network.Ports = append(l.network.Ports, vmspec.PortForward{Host: number, Guest: 22})
		l.keep(port, "vm.network[0].ports")
	} else {
		l.drop(port, "vmrunner ssh needs no port")
	}
	for _, child := range n.childrenOrNone() {
		if strings.HasPrefix(child.name, "forward") && child.text == "true" {
			l.change(child, "ssh's matter: vmrunner ssh -A", "")
		} else if child.name != "localPort" {
			l.drop(child, "ssh's matter")
		}
	}
}

// forward reads a port that leads to the guest.
func (l *lima) forward(n *node) {
	protocol := n.one("proto").value()
	from, err := strconv.Atoi(n.one("guestPort").value())
	to := from
	if text := n.one("hostPort").value(); text != "" && err == nil {
		to, err = strconv.Atoi(text)
	}
	switch {
	case n.one("ignore").value() == "true":
		l.drop(n, "only vm.network[0].ports lead to the guest")
		return
	case err != nil, n.one("reverse").value() == "true", protocol == "any":
		l.block(n, "want one port of the host that leads to one of the guest", "vm.network[0].ports has each")
		return
	}
	for _, name := range []string{"guestIP", "guestIPMustBeZero", "static"} {
		l.drop(n.one(name), "a port leads to the guest's address")
	}
	l.network.Ports = append(l.network.Ports, vmspec.PortForward{
		Protocol: protocol, Address: n.one("hostIP").value(), Host: to, Guest: from,
	})
	l.keep(n, "vm.network[0].ports")
}

// networks reads the cards beside the first, which Lima always makes.
func (l *lima) networks() {
	l.vm().Network = []vmspec.Network{l.network}
	for _, item := range l.given(l.root, "networks").all("item") {
		name := item.one("lima").value()
		bridge := l.options.Bridges[name]
		if name == "" || bridge == "" {
			hint := "vm.network"
			if name != "" {
				hint = "the name of a bridge: --bridge '" + name + "=BRIDGE'"
			}
			l.block(item, "what such a network is to be here isn't in this file", hint)
			continue
		}
		l.drop(item.one("interface"), "the guest names its card")
		l.drop(item.one("metric"), "the guest's matter")
		l.keep(item, fmt.Sprintf("vm.network[%d]", len(l.vm().Network)))
		l.vm().Network = append(l.vm().Network, vmspec.Network{Bridge: bridge, MAC: item.one("macAddress").value()})
	}
	l.find(Changes, &node{path: "portForwards", line: 1}, "Lima opens each port that the guest listens on: here only those "+
		"that are named", "vm.network[0].ports, or vmrunner port-forward")
}

func (l *lima) others() {
	video := l.given(l.root, "video")
	if n := l.given(video, "display"); n != nil && n.text != "none" {
		l.vm().Display = &vmspec.Display{VNC: &vmspec.VNC{}}
		l.change(n, "vm.display.vnc", "vmrunner view")
	} else {
		l.keep(n, "no vm.display")
	}
	l.drop(video.one("vnc"), "vm.display.vnc is on a unix socket")
	for _, n := range l.root.children {
		switch {
		case n.seen:
		case slices.Contains([]string{
			"mountType", "mountTypesUnsupported", "upgradePackages", "probes", "minimumLimaVersion", "base", "message",
			"propagateProxyEnv", "hostResolver", "dns", "guestInstallPrefix", "plain", "timezone", "rosetta", "user",
			"audio",
			"copyToHost", "param", "nestedVirtualization", "ssh", "saveHostname",
		}, n.name):
			l.drop(n, "Lima's matter, or the guest's")
		}
	}
	if n := l.root.one("vmOpts"); n != nil {
		for _, child := range n.children {
			if child.name != "qemu" || child.one("cpuType") == nil {
				l.drop(child, "Lima's matter")
			} else {
				l.drop(child.one("minimumVersion"), "Lima's matter")
			}
		}
	}
}
