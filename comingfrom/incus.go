package comingfrom

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vmop/cloudinit"
	"vmop/vmspec"
	"vmop/yamlfile"
)

// incus reads what "incus config show --expanded NAME" prints. The name is that of the file.
type incus struct {
	*conversion
	root, keys *node
	priorities []int // of the drives, in the order of the drives
}

func (i *incus) read(root *node) {
	i.root, i.keys = root, root.one("config")
	root.see()
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(i.file), ".yaml"), ".yml")
	if n := i.given(root, "name"); n != nil {
		name = n.value()
		i.keep(n, "vm.name")
	} else {
		i.find(Kept, &node{line: 1}, "vm.name: the name of the file, "+name, "")
	}
	i.vm().Name = name
	i.machine()
	i.sizes()
	i.firmware()
	i.cloudInit()
	i.vm().Network = []vmspec.Network{}
	devices := slices.Clone(i.given(root, "devices").childrenOrNone())
	slices.SortStableFunc(devices, func(a, b *node) int { return b.rootFirst() - a.rootFirst() })
	for _, device := range devices {
		device.see()
		i.device(device)
	}
	i.bootOrder()
	i.others()
}

// rootFirst returns 1 for the disk of the root, which is the first one, else 0.
func (n *node) rootFirst() int {
	if n.one("path").value() == "/" {
		return 1
	}
	return 0
}

func (i *incus) machine() {
	switch n := i.given(i.root, "architecture"); n.value() {
	case "x86_64", "":
		i.config.VMType = "cloud"
		if os := i.keys.one("image.os").value(); strings.EqualFold(os, "windows") {
			i.config.VMType = "windows"
		}
		i.keep(n, "the VM type "+i.config.VMType)
	case "aarch64":
		i.config.VMType = "arm64"
		i.keep(n, "the VM type arm64")
	default:
		i.find(Blocks, n, "no stock type is for "+n.text, "a VM type of your own: docs/vm-types/tutorial.md")
	}
	if n := i.given(i.root, "type"); n.value() == "container" {
		i.find(Blocks, n, "this is a container, not a virtual machine", "")
	} else {
		i.keep(n, "a virtual machine")
	}
	for _, n := range i.keys.childrenOrNone() {
		if strings.HasPrefix(n.name, "volatile.idmap") || strings.HasPrefix(n.name, "raw.lxc") {
			i.find(Blocks, n, "this is a container, not a virtual machine", "")
			n.seeAll()
		}
	}
	i.find(Changes, &node{path: "config", line: 1}, "there is no agent of Incus, with incus exec and file: vmrunner ssh, "+
		"console and QEMU's guest agent take its place", "install qemu-guest-agent in the guest: docs/guest-agents.md")
}

func (i *incus) sizes() {
	i.vm().MaximumCPUs, i.vm().MaximumRAM = 1, 1<<30
	n := i.given(i.keys, "limits.cpu")
	switch count, err := strconv.Atoi(n.value()); {
	case n == nil:
		i.find(Kept, &node{path: "config/limits.cpu", line: 1}, "vm.maximumCpus: 1, as Incus has by default", "")
	case err == nil && count > 0:
		i.vm().MaximumCPUs = count
		i.keep(n, "vm.maximumCpus")
	default:
		if i.vm().MaximumCPUs = countOf(n.text); i.vm().MaximumCPUs == 0 {
			i.block(n, "want a number of at least 1, or a set such as 0-3", "")
		} else {
			i.change(n, "vm.maximumCpus; where they run is a VM type's matter", "docs/vm-types/cpu-affinity.md")
		}
	}
	if n := i.given(i.keys, "limits.memory"); n == nil {
		i.find(Kept, &node{path: "config/limits.memory", line: 1}, "vm.maximumRam: 1 GiB, as Incus has by default", "")
	} else {
		i.vm().MaximumRAM = i.size(n, "vm.maximumRam")
	}
	if n := i.given(i.keys, "limits.memory.hugepages"); n.value() == "true" {
		i.block(n, "huge pages are the matter of a VM type", "the example type hugepages: docs/vm-types/huge-pages.md")
	}
}

// size reads a size of Incus, in which GB is 1000^3 and GiB 1024^3.
func (i *incus) size(n *node, to string) vmspec.Bytes {
	bytes, err := vmspec.ParseBytes(n.value())
	const most = 1 << 50
	if err != nil || bytes < 1 || bytes > most {
		i.block(n, "want a size such as 4GiB", "")
		return 0
	}
	whole := (bytes + mebi - 1) / mebi * mebi
	if whole != bytes {
		i.change(n, to+", rounded up to whole MiB", "")
	} else {
		i.keep(n, to)
	}
	return whole
}

// countOf returns how many CPUs a set such as "0-3,6" has; 0 if it is none.
func countOf(set string) (count int) {
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
		count += to - from + 1
	}
	return count
}

func (i *incus) firmware() {
	secure, csm := i.given(i.keys, "security.secureboot"), i.given(i.keys, "security.csm")
	isSecure := secure.value() != "false"
	kind := vmspec.FirmwareUEFI4M
	switch {
	case csm.value() == "true":
		kind, isSecure = vmspec.FirmwareBIOS, false
	case isSecure:
		kind = vmspec.FirmwareSecure4M
	}
	i.vm().Firmware = kind
	i.keep(secure, "vm.firmware: "+string(kind))
	i.keep(csm, "vm.firmware: "+string(kind))
	if kind != vmspec.FirmwareBIOS {
		i.find(Changes, &node{path: "config/security.secureboot", line: secure.lineOr(1)},
			"vm.firmware: "+string(kind)+"; the firmware's variables are a file in the data directory",
			"copy qemu.nvram to fw-vars.fd there, if it is as large as vmrunner plan's template: "+
				"docs/vm-types/from-libvirt.md#state")
	}
	if i.config.VMType == "windows" {
		if !isSecure {
			i.option("secureBoot", false)
		}
		hasTPM := slices.ContainsFunc(i.root.one("devices").childrenOrNone(), func(device *node) bool {
			return device.one("type").value() == "tpm"
		})
		if !hasTPM {
			i.option("tpm", false)
		}
	}
	if n := i.given(i.keys, "volatile.uuid"); n != nil {
		i.vm().UUID = n.value()
		i.keep(n, "vm.uuid")
	}
}

// cloudInit reads the data by which the guest configures itself.
func (i *incus) cloudInit() {
	var data [3][]byte // user-data, network-config, vendor-data
	names := [3]string{"user-data", "network-config", "vendor-data"}
	for at, name := range names {
		for _, prefix := range []string{"user.", "cloud-init."} {
			n := i.given(i.keys, prefix+name)
			if n == nil {
				continue
			}
			var value any = n.value()
			if name == "network-config" {
				values, _, err := yamlfile.Tree(name, []byte(n.text))
				if err != nil {
					i.block(n, "it is no YAML that can be read", "")
					continue
				}
				value = values
			}
			text, err := json.Marshal(value)
			if err != nil {
				i.block(n, "it can't be written", "")
				continue
			}
			data[at] = text
			i.change(n, "cloudInit; the guest takes the VM for a new computer, and does it again",
				"to keep the guest as it is, leave it out: --without 'config/"+n.name+"'")
		}
	}
	if data[0] == nil && data[1] == nil && data[2] == nil {
		return
	}
	config, err := cloudinit.FromJSON(nil, data[0], data[1], data[2])
	if err != nil {
		i.find(Blocks, i.keys, errors.Unwrap(err).Error(), "")
		return
	}
	i.config.CloudInit = config
}

// others reads what has no effect, and what a VM type would have to have.
func (i *incus) others() {
	for _, n := range i.keys.childrenOrNone() {
		prefix, _, _ := strings.Cut(n.name, ".")
		switch {
		case n.seen:
		case prefix == "volatile", prefix == "image", prefix == "snapshots", prefix == "cluster", prefix == "user":
			i.drop(n, "Incus's matter")
		case prefix == "environment", strings.HasPrefix(n.name, "agent."), prefix == "oci":
			i.drop(n, "a matter of Incus's agent")
		case strings.HasPrefix(n.name, "boot.autostart"):
			i.drop(n, "systemd's matter: vmrunner autostart")
		case n.name == "boot.host_shutdown_timeout":
			i.drop(n, "vm.powerdownTimeout")
		case prefix == "boot", strings.HasPrefix(n.name, "security.protection"), n.name == "security.agent.metrics",
			strings.HasPrefix(n.name, "security.guestapi"), strings.HasPrefix(n.name, "security.devlxd"):
			i.drop(n, "Incus's matter")
		case prefix == "limits":
			i.drop(n, "the control group's matter: docs/systemd.md")
		case prefix == "migration":
			i.drop(n, "guests move without being prepared: docs/migration.md")
		case strings.HasPrefix(n.name, "cloud-init.ssh-keys"):
			i.block(n, "keys are users' of cloud-init", "cloud-init.user-data: users, ssh_authorized_keys")
		case prefix == "raw":
			i.block(n, "QEMU's arguments are the matter of a VM type",
				"write each as option(…) in a type of your own: docs/vm-types/add-device.md")
		}
	}
	for _, name := range []string{
		"ephemeral", "stateful", "profiles", "description", "project", "location", "status", "status_code",
		"created_at", "last_used_at", "expanded_config", "expanded_devices", "backups", "snapshots", "state", "restore",
	} {
		n := i.root.one(name)
		if name == "ephemeral" && n.value() == "true" {
			i.change(n, "the disks stay when the guest shuts down", "")
		} else {
			i.drop(n, "Incus's matter")
		}
	}
}

// bootOrder orders the drives: the highest priority first, and the root disk before others.
func (i *incus) bootOrder() {
	drives := i.vm().Drives
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

// place returns how a drive that comes next is called.
func (i *incus) place() string { return fmt.Sprintf("vm.drives[%d]", len(i.vm().Drives)) }
