package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vmop/cloudinit"
	"vmop/internal/yamlfile"
	"vmop/vmspec"
)

// incus reads the output of "incus config show --expanded NAME". The VM's name is the name in this file.
type incus struct {
	*conversion
	root, keys *node
	priorities []int // of the drives, in the same order
}

func (i *incus) readIncus(root *node) {
	i.root, i.keys = root, root.firstChild("config")
	root.markSeen()
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(i.file), ".yaml"), ".yml")
	if n := i.givenPart(root, "name"); n != nil {
		name = n.textValue()
		i.keepPart(n, "vm.name")
	} else {
		i.addFinding(Kept, &node{line: 1}, "vm.name: the name of the file, "+name, "")
	}
	i.vmSection().Name = name
	i.readMachine()
	i.readSizes()
	i.readFirmware()
	i.readCloudInit()
	i.vmSection().Network = []vmspec.Network{}
	devices := slices.Clone(i.givenPart(root, "devices").childrenOrNone())
	slices.SortStableFunc(devices, func(a, b *node) int { return b.rootFirst() - a.rootFirst() })
	for _, device := range devices {
		device.markSeen()
		i.readDevice(device)
	}
	i.bootOrder()
	i.readOthers()
}

// rootFirst returns 1 for the root disk, which comes first, and 0 for other disks.
func (n *node) rootFirst() int {
	if n.firstChild("path").textValue() == "/" {
		return 1
	}
	return 0
}

func (i *incus) readMachine() {
	switch n := i.givenPart(i.root, "architecture"); n.textValue() {
	case "x86_64", "":
		i.config.VMType = "cloud"
		if os := i.keys.firstChild("image.os").textValue(); strings.EqualFold(os, "windows") {
			i.config.VMType = "windows"
		}
		i.keepPart(n, "the VM type "+i.config.VMType)
	case "aarch64":
		i.config.VMType = "arm64"
		i.keepPart(n, "the VM type arm64")
	default:
		i.addFinding(Blocks, n, "no stock type is for "+n.text, "your own VM type: docs/vm-types/tutorial.md")
	}
	if n := i.givenPart(i.root, "type"); n.textValue() == "container" {
		i.addFinding(Blocks, n, "this is a container, not a virtual machine", "")
	} else {
		i.keepPart(n, "a virtual machine")
	}
	for _, n := range i.keys.childrenOrNone() {
		if strings.HasPrefix(n.name, "volatile.idmap") || strings.HasPrefix(n.name, "raw.lxc") {
			i.addFinding(Blocks, n, "this is a container, not a virtual machine", "")
			n.seeAll()
		}
	}
	i.addFinding(Changes, &node{path: "config", line: 1}, "there is no agent of Incus, with incus exec and file: vmrunner ssh, "+
		"console and QEMU's guest agent take its place", "install qemu-guest-agent in the guest: "+
		"docs/reference/guest-agents.md")
}

func (i *incus) readSizes() {
	i.vmSection().MaximumCPUs, i.vmSection().MaximumRAM = 1, 1<<30
	n := i.givenPart(i.keys, "limits.cpu")
	switch count, err := strconv.Atoi(n.textValue()); {
	case n == nil:
		i.addFinding(Kept, &node{path: "config/limits.cpu", line: 1}, "vm.maximumCpus: 1, as Incus has by default", "")
	case err == nil && count > 0:
		i.vmSection().MaximumCPUs = count
		i.keepPart(n, "vm.maximumCpus")
	case err != nil && countOf(n.text) > 0:
		i.vmSection().MaximumCPUs = countOf(n.text)
		i.changePart(n, "vm.maximumCpus; where they run is a VM type's matter", "docs/vm-types/cpu-affinity.md")
	default: // a single number is a count; a set of one CPU is written as 0-0
		i.blockPart(n, "must be a number of at least 1, or a set such as 0-3", "")
	}
	if n := i.givenPart(i.keys, "limits.memory"); n == nil {
		i.addFinding(Kept, &node{path: "config/limits.memory", line: 1},
			"vm.maximumRam: 1 GiB, as Incus has by default", "")
	} else {
		i.vmSection().MaximumRAM = i.readSize(n, "vm.maximumRam")
	}
	if n := i.givenPart(i.keys, "limits.memory.hugepages"); n.textValue() == "true" {
		i.blockPart(n, "huge pages are the matter of a VM type", "the example type hugepages: docs/vm-types/huge-pages.md")
	}
}

// readSize reads a size of Incus. GB is 1000^3 bytes and GiB is 1024^3 bytes.
func (i *incus) readSize(n *node, to string) vmspec.Bytes {
	bytes, err := vmspec.ParseDecimal(n.textValue())
	const most = 1 << 50
	if err != nil || bytes < 1 || bytes > most {
		i.blockPart(n, "must be a size such as 4GiB", "")
		return 0
	}
	whole := (bytes + mebi - 1) / mebi * mebi
	if whole != bytes {
		i.changePart(n, to+", rounded up to whole MiB", "")
	} else {
		i.keepPart(n, to)
	}
	return whole
}

// countOf returns the number of CPUs in a set such as "0-3,6", or 0 if the set is invalid.
func countOf(set string) int {
	cpus := map[int]bool{}
	for part := range strings.SplitSeq(set, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from || to > 1<<12 {
			return 0
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus[cpu] = true
		}
	}
	return len(cpus)
}

func (i *incus) readFirmware() {
	secure, csm := i.givenPart(i.keys, "security.secureboot"), i.givenPart(i.keys, "security.csm")
	isSecure := secure.textValue() != "false"
	kind := vmspec.FirmwareUEFI4M
	switch {
	case csm.textValue() == "true":
		kind, isSecure = vmspec.FirmwareBIOS, false
	case isSecure:
		kind = vmspec.FirmwareSecure4M
	}
	i.vmSection().Firmware = kind
	i.keepPart(secure, "vm.firmware: "+string(kind))
	i.keepPart(csm, "vm.firmware: "+string(kind))
	if kind != vmspec.FirmwareBIOS {
		i.addFinding(Changes, &node{path: "config/security.secureboot", line: secure.lineOr(1)},
			"vm.firmware: "+string(kind)+"; the firmware's variables are a file in the data directory",
			"copy qemu.nvram to fw-vars.fd there, if it is as large as vmrunner plan's template: "+
				"docs/vm-types/from-libvirt.md#state")
	}
	if i.config.VMType == "windows" {
		if !isSecure {
			i.setOption("secureBoot", false)
		}
		hasTPM := slices.ContainsFunc(i.root.firstChild("devices").childrenOrNone(), func(device *node) bool {
			return device.firstChild("type").textValue() == "tpm"
		})
		if !hasTPM {
			i.setOption("tpm", false)
		}
	}
	if n := i.givenPart(i.keys, "volatile.uuid"); n != nil {
		i.vmSection().UUID = n.textValue()
		i.keepPart(n, "vm.uuid")
	}
}

// readCloudInit reads the cloud-init data.
func (i *incus) readCloudInit() {
	var data [3][]byte // user-data, network-config, vendor-data
	names := [3]string{"user-data", "network-config", "vendor-data"}
	for at, name := range names {
		for _, prefix := range []string{"user.", "cloud-init."} {
			n := i.givenPart(i.keys, prefix+name)
			if n == nil {
				continue
			}
			var value any = n.textValue()
			if name == "network-config" {
				values, _, err := yamlfile.Tree(name, []byte(n.text))
				if err != nil {
					i.blockPart(n, "it is no YAML that can be read", "")
					continue
				}
				value = values
			}
			text, err := json.Marshal(value)
			if err != nil {
				i.blockPart(n, "it can't be written", "")
				continue
			}
			data[at] = text
			i.changePart(n, "cloudInit; the guest takes the VM for a new computer, and does it again",
				"to keep the guest as it is, leave it out: --without 'config/"+n.name+"'")
		}
	}
	if data[0] == nil && data[1] == nil && data[2] == nil {
		return
	}
	config, err := cloudinit.FromJSON(nil, data[0], data[1], data[2])
	if err != nil {
		i.addFinding(Blocks, i.keys, errors.Unwrap(err).Error(), "")
		return
	}
	i.config.CloudInit = config
}

// readOthers reads the keys without an effect, and the keys that need a VM type.
func (i *incus) readOthers() {
	for _, n := range i.keys.childrenOrNone() {
		prefix, _, _ := strings.Cut(n.name, ".")
		switch {
		case n.seen:
		case prefix == "volatile", prefix == "image", prefix == "snapshots", prefix == "cluster", prefix == "user":
			i.dropPart(n, "Incus's matter")
		case prefix == "environment", strings.HasPrefix(n.name, "agent."), prefix == "oci":
			i.dropPart(n, "a matter of Incus's agent")
		case strings.HasPrefix(n.name, "boot.autostart"):
			i.dropPart(n, "systemd's matter: vmrunner autostart")
		case n.name == "boot.host_shutdown_timeout":
			i.dropPart(n, "vm.powerdownTimeout")
		case prefix == "boot", strings.HasPrefix(n.name, "security.protection"), n.name == "security.agent.metrics",
			strings.HasPrefix(n.name, "security.guestapi"), strings.HasPrefix(n.name, "security.devlxd"):
			i.dropPart(n, "Incus's matter")
		case prefix == "limits":
			i.dropPart(n, "the control group's matter: docs/tasks/systemd.md")
		case prefix == "migration":
			i.dropPart(n, "guests move without being prepared: docs/tasks/migration.md")
		case strings.HasPrefix(n.name, "cloud-init.ssh-keys"):
			i.blockPart(n, "keys are users' of cloud-init", "cloud-init.user-data: users, ssh_authorized_keys")
		case prefix == "raw":
			i.blockPart(n, "QEMU's arguments are the matter of a VM type",
				"write each as option(…) in your own type: docs/vm-types/add-device.md")
		}
	}
	for _, name := range []string{
		"ephemeral", "stateful", "profiles", "description", "project", "location", "status", "status_code",
		"created_at", "last_used_at", "expanded_config", "expanded_devices", "backups", "snapshots", "state", "restore",
	} {
		n := i.root.firstChild(name)
		if name == "ephemeral" && n.textValue() == "true" {
			i.changePart(n, "the disks stay when the guest shuts down", "")
		} else {
			i.dropPart(n, "Incus's matter")
		}
	}
}

// bootOrder orders the drives by priority, highest first. The root disk precedes other disks with the same
// priority.
func (i *incus) bootOrder() {
	drives := i.vmSection().Drives
	order := make([]int, len(drives))
	for at := range order {
		order[at] = at
	}
	slices.SortStableFunc(order, func(a, b int) int { return i.priorities[b] - i.priorities[a] })
	number := 0
	for _, at := range order {
		if i.priorities[at] > 0 {
			number++
			drives[at].Bootindex = new(number)
		}
	}
}

// nextDrivePath returns the path of the next drive in the configuration.
func (i *incus) nextDrivePath() string {
	return fmt.Sprintf("vm.drives[%d]", len(i.vmSection().Drives))
}
