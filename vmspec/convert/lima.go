package convert

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// limaInstance is the name of an instance's definition.
const limaInstance = "lima.yaml"

// lima reads the lima.yaml of an instance, with the disk in the same folder, or a template, which has no disk
// yet.
type lima struct {
	*conversion
	root       *node
	isInstance bool
	arch       string
	network    vmspec.Network
}

func (l *lima) readLima(root *node) {
	l.root = root
	root.markSeen()
	l.vmSection().Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(l.file), ".yaml"), ".yml")
	if l.isInstance = filepath.Base(l.file) == limaInstance; l.isInstance {
		l.vmSection().Name = filepath.Base(filepath.Dir(l.file))
	}
	l.addFinding(Kept, &node{line: 1}, "vm.name: the name of the file or its folder, "+l.vmSection().Name, "")
	l.network.Type = vmspec.NetworkUser
	l.readMachine()
	l.readSizes()
	l.readDisks()
	l.readGuest()
	l.readSSH(l.givenPart(root, "ssh"))
	for _, forward := range l.givenPart(root, "portForwards").takeChildren("item") {
		l.readForward(forward)
	}
	l.readNetworks()
	l.readOthers()
}

func (l *lima) readMachine() {
	switch n := l.givenPart(l.root, "vmType"); n.textValue() {
	case "", "qemu", "default":
		l.keepPart(n, "QEMU")
	case "vz", "krunkit":
		l.changePart(n, "QEMU, instead of "+n.text, "")
	default:
		l.addFinding(Blocks, n, "an instance by "+n.text+" is not a separate virtual machine", "")
	}
	if n := l.givenPart(l.root, "os"); n.textValue() != "Linux" {
		l.blockPart(n, "must be Linux, not "+n.textValue(), "")
	} else {
		l.keepPart(n, "the guest's matter")
	}
	arch := l.givenPart(l.root, "arch")
	switch l.arch = arch.textValue(); l.arch {
	case "", "default":
		l.arch = "x86_64"
		l.addFinding(Changes, &node{path: "arch", line: arch.lineOr(1)}, "the VM type standard, which is for x86_64",
			"vmType: arm64 if the instance was created on an arm64 computer")
	case "x86_64":
		l.keepPart(arch, "the VM type standard")
	case "aarch64":
		l.config.VMType = "arm64"
		l.keepPart(arch, "the VM type arm64")
	default:
		l.addFinding(Blocks, arch, "no stock type is for "+arch.text,
			"your own VM type: docs/vm-types/tutorial.md")
	}
	firmware := l.givenPart(l.root, "firmware")
	if n := l.givenPart(firmware, "legacyBIOS"); n.textValue() == "true" && l.arch == "x86_64" {
		l.vmSection().Firmware = vmspec.FirmwareBIOS
		l.keepPart(n, "vm.firmware: bios")
	} else {
		l.keepPart(n, "vm.firmware: uefi, the default")
	}
	if n := l.givenPart(firmware, "images"); n != nil {
		n.seeAll()
		l.changePart(n, "the firmware is the one that the runner finds", "docs/reference/firmware.md")
	}
	models := l.givenPart(l.root, "cpuType")
	if vmOpts := l.root.firstChild("vmOpts").firstChild("qemu"); models == nil {
		models = l.givenPart(vmOpts, "cpuType")
	}
	for _, n := range models.childrenOrNone() {
		if n.name == l.arch && n.text != "" {
			l.vmSection().CPUModel = n.textValue()
			l.keepPart(n, "vm.cpuModel")
		} else {
			l.dropPart(n, "for another computer, or not set")
		}
	}
}

// childrenOrNone returns the children. It accepts a nil node.
func (n *node) childrenOrNone() []*node {
	if n == nil {
		return nil
	}
	return n.children
}

// readSizes reads CPUs and RAM. By default, Lima chooses them according to the computer.
func (l *lima) readSizes() {
	l.vmSection().MaximumCPUs, l.vmSection().MaximumRAM = 4, 4<<30
	if n := l.givenPart(l.root, "cpus"); n == nil {
		l.addFinding(Changes, &node{path: "cpus", line: 1},
			"Lima uses at most 4, depending on the computer; here it is 4",
			"vm.maximumCpus")
	} else if count, err := strconv.Atoi(n.textValue()); err != nil || count < 1 {
		l.blockPart(n, "must be a number of at least 1", "")
	} else {
		l.vmSection().MaximumCPUs = count
		l.keepPart(n, "vm.maximumCpus")
	}
	if n := l.givenPart(l.root, "memory"); n == nil {
		l.addFinding(Changes, &node{path: "memory", line: 1},
			"Lima uses at most 4 GiB, depending on the computer; here it is 4 GiB",
			"vm.maximumRam")
	} else {
		l.vmSection().MaximumRAM = l.binarySize(n, 0, "vm.maximumRam")
	}
}

func (l *lima) readDisks() {
	number := 1
	images, size := l.givenPart(l.root, "images"), l.givenPart(l.root, "disk")
	drive := vmspec.Drive{Bootindex: &number}
	if l.isInstance {
		drive.File, drive.Format = "diffdisk", "qcow2"
		if kind := l.root.firstChild("vmType").textValue(); kind == "vz" || kind == "krunkit" {
			drive.Format = "raw"
		}
		l.addFinding(Changes, &node{path: "images", line: images.lineOr(1)},
			"vm.drives[0]: the instance's disk diffdisk, of the format "+drive.Format, "qemu-img info diffdisk; newer versions "+
				"of Lima call it disk")
		l.dropPart(images, "the disk is created")
		l.dropPart(size, "the disk has its size")
	} else {
		drive.File = l.vmSection().Name + ".img"
		drive.Size = 100 << 30
		if size != nil {
			drive.Size = l.binarySize(size, 0, "vm.drives[0].size")
		}
		l.readSource(images, &drive)
	}
	l.vmSection().Drives = []vmspec.Drive{drive}
	for _, item := range l.givenPart(l.root, "additionalDisks").takeChildren("item") {
		name := item.textValue()
		if n := l.givenPart(item, "name"); n != nil {
			name = n.textValue()
		}
		if !l.isInstance || name == "" || strings.Contains(name, "/") {
			l.blockPart(item, "there is no such disk yet", "vm.drives, with file and size")
			continue
		}
		l.dropPart(item.firstChild("format"), "the disk is created")
		l.dropPart(item.firstChild("fsType"), "the disk is created")
		l.changePart(item, fmt.Sprintf("vm.drives[%d], of the format qcow2; Lima's script in the guest doesn't mount it",
			len(l.vmSection().Drives)), "qemu-img info shows the format; /etc/fstab in the guest")
		l.vmSection().Drives = append(l.vmSection().Drives, vmspec.Drive{
			File: filepath.Join("..", "_disks", name, "datadisk"), Format: "qcow2",
		})
	}
}

// readSource reads the image for the disk: the first image for the VM's processor.
func (l *lima) readSource(images *node, drive *vmspec.Drive) {
	blocked := l.result.Count(Blocks)
	for _, image := range images.takeChildren("item") {
		location, arch := l.givenPart(image, "location"), l.givenPart(image, "arch")
		switch {
		case drive.Source != "" || arch != nil && arch.textValue() != l.arch:
			l.dropPart(image, "for another computer, or there is one before")
		case image.firstChild("kernel") != nil || image.firstChild("initrd") != nil:
			l.blockPart(image, "a kernel next to the image is vm.kernel", "fetch it, and write vm.kernel")
		case !strings.Contains(location.textValue(), "://"):
			l.blockPart(image, "must be the URL of an image, not "+location.textValue(),
				"an absolute path: file://…, or vm.drives[].source")
		default:
			drive.Source, drive.SourceChecksum = location.textValue(), image.firstChild("digest").textValue()
			l.keepPart(location, "vm.drives[0].source")
			l.keepPart(arch, "the VM type's")
			l.keepPart(image.firstChild("digest"), "vm.drives[0].sourceChecksum")
		}
	}
	if drive.Source == "" && l.result.Count(Blocks) == blocked {
		message := "there is no image for " + l.arch
		if base := l.root.firstChild("base"); base != nil {
			message = "a template that is based on others isn't whole"
		}
		l.addFinding(Blocks, &node{line: images.lineOr(1)}, message,
			"limactl template copy --fill TEMPLATE FILE makes a whole one")
	}
}

// readGuest reads the settings that Lima applies within the guest. Only Lima's own disk applies them, at each start.
func (l *lima) readGuest() {
	if l.isInstance {
		l.addFinding(Changes, &node{path: "networks", line: 1},
			"the card gets a new hardware address, but Lima's "+
				"configuration in the guest refers to the old address", "vm.network[0].mac: what limactl shell "+l.vmSection().Name+
				" cat /sys/class/net/eth0/address prints")
	} else {
		l.addFinding(Changes, &node{path: "user", line: 1}, "no user can log in yet: Lima makes one",
			"cloudInit.userData.users")
	}
	for _, name := range []string{"provision", "caCerts", "env", "containerd"} {
		n := l.givenPart(l.root, name)
		switch {
		case n == nil:
		case name == "containerd" && n.firstChild("system").textValue() != "true" &&
			n.firstChild("user").textValue() != "true":
			l.dropPart(n, "is off")
		case l.isInstance:
			n.seeAll()
			l.changePart(n, "it is in the guest already; Lima repeats it at each start, which is no longer done", "")
		default:
			l.blockPart(n, "what is done in the guest is cloud-init's matter", "cloudInit.userData: "+
				"docs/tasks/cloud-init.md")
		}
	}
	for _, name := range []string{"mounts", "mountInotify"} {
		if n := l.givenPart(l.root, name); n != nil && n.text != "false" {
			l.blockPart(n, "a shared folder is the matter of a VM type",
				"the example type shares: docs/vm-types/share-folder.md")
		}
	}
}

func (l *lima) readSSH(n *node) {
	if port := l.givenPart(n, "localPort"); port != nil && port.text != "0" {
		number, err := strconv.Atoi(port.textValue())
		if err != nil {
			l.blockPart(port, "must be a port", "")
		}
		l.network.Ports = append(l.network.Ports, vmspec.PortForward{Host: number, Guest: 22})
		l.keepPart(port, "vm.network[0].ports")
	} else {
		l.dropPart(port, "vmrunner ssh needs no port")
	}
	for _, child := range n.childrenOrNone() {
		if strings.HasPrefix(child.name, "forward") && child.text == "true" {
			l.changePart(child, "ssh's matter: vmrunner ssh -A", "")
		} else if child.name != "localPort" {
			l.dropPart(child, "ssh's matter")
		}
	}
}

// readForward reads a port that is forwarded to the guest.
func (l *lima) readForward(n *node) {
	protocol := n.firstChild("proto").textValue()
	from, err := strconv.Atoi(n.firstChild("guestPort").textValue())
	to := from
	if text := n.firstChild("hostPort").textValue(); text != "" && err == nil {
		to, err = strconv.Atoi(text)
	}
	switch {
	case n.firstChild("ignore").textValue() == "true":
		l.dropPart(n, "only vm.network[0].ports lead to the guest")
		return
	case err != nil, n.firstChild("reverse").textValue() == "true", protocol == "any":
		l.blockPart(n, "must map one port of the host to one port of the guest", "vm.network[0].ports has each")
		return
	}
	for _, name := range []string{"guestIP", "guestIPMustBeZero", "static"} {
		l.dropPart(n.firstChild(name), "a port leads to the guest's address")
	}
	l.network.Ports = append(l.network.Ports, vmspec.PortForward{
		Protocol: protocol, Address: n.firstChild("hostIP").textValue(), Host: to, Guest: from,
	})
	l.keepPart(n, "vm.network[0].ports")
}

// readNetworks reads the additional cards. Lima always creates the first card.
func (l *lima) readNetworks() {
	l.vmSection().Network = []vmspec.Network{l.network}
	for _, item := range l.givenPart(l.root, "networks").takeChildren("item") {
		name := item.firstChild("lima").textValue()
		bridge := l.options.Bridges[name]
		if name == "" || bridge == "" {
			hint := "vm.network"
			if name != "" {
				hint = "the name of a bridge: --bridge '" + name + "=BRIDGE'"
			}
			l.blockPart(item, "what such a network is to be here isn't in this file", hint)
			continue
		}
		l.dropPart(item.firstChild("interface"), "the guest names its card")
		l.dropPart(item.firstChild("metric"), "the guest's matter")
		l.keepPart(item, fmt.Sprintf("vm.network[%d]", len(l.vmSection().Network)))
		l.vmSection().Network = append(l.vmSection().Network,
			vmspec.Network{Bridge: bridge, MAC: item.firstChild("macAddress").textValue()})
	}
	l.addFinding(Changes, &node{path: "portForwards", line: 1},
		"Lima opens each port that the guest listens on: here only those "+
			"that are named", "vm.network[0].ports, or vmrunner port-forward")
}

func (l *lima) readOthers() {
	video := l.givenPart(l.root, "video")
	if n := l.givenPart(video, "display"); n != nil && n.text != "none" {
		l.vmSection().Display = &vmspec.Display{VNC: &vmspec.VNC{}}
		l.changePart(n, "vm.display.vnc", "vmrunner view")
	} else {
		l.keepPart(n, "no vm.display")
	}
	l.dropPart(video.firstChild("vnc"), "vm.display.vnc is on a unix socket")
	for _, n := range l.root.children {
		switch {
		case n.seen:
		case slices.Contains([]string{
			"mountType", "mountTypesUnsupported", "upgradePackages", "probes", "minimumLimaVersion", "base", "message",
			"propagateProxyEnv", "hostResolver", "dns", "guestInstallPrefix", "plain", "timezone", "rosetta", "user",
			"audio",
			"copyToHost", "param", "nestedVirtualization", "ssh", "saveHostname",
		}, n.name):
			l.dropPart(n, "Lima's matter, or the guest's")
		}
	}
	if n := l.root.firstChild("vmOpts"); n != nil {
		for _, child := range n.children {
			if child.name != "qemu" || child.firstChild("cpuType") == nil {
				l.dropPart(child, "Lima's matter")
			} else {
				l.dropPart(child.firstChild("minimumVersion"), "Lima's matter")
			}
		}
	}
}
