package vmspec

import (
	"cmp"
	"slices"
	"strings"
)

// KeysMeantBy returns the keys of a configuration that a user means by an unknown key. Lima, Incus, KubeVirt, libvirt
// and other programs have other names for them. path is the path of the unknown key in the section, such as
// "vm.memory", "memory" or "vm.drives[0].path". A returned path has indices only where path has them. The result is
// empty for other words.
func KeysMeantBy(path string) []string {
	return meantBy(path, func(s synonym) (in, keys string) { return s.in, s.keys })
}

// FieldsMeantBy is like KeysMeantBy, for the fields of the custom resource: "spec.vm.memory" means
// "spec.vm.currentRam" or "spec.vm.maximumRam".
func FieldsMeantBy(path string) []string {
	inSpec, is := strings.CutPrefix(path, "spec.")
	if !is {
		return nil
	}
	renamed := strings.NewReplacer("drives[]", "disks[]", "network[]", "networks[]")
	fields := meantBy(inSpec, func(s synonym) (in, keys string) {
		return renamed.Replace(s.in), cmp.Or(s.fields, s.keys)
	})
	for i, field := range fields {
		if field != "metadata.name" {
			fields[i] = "spec." + field
		}
	}
	return fields
}

// meantBy finds the row for a path. columns returns the row's mapping and keys.
func meantBy(path string, columns func(synonym) (in, keys string)) []string {
	dot := strings.LastIndexByte(path, '.')
	parent, word := path[:max(dot, 0)], strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(path[dot+1:]))
	for _, s := range synonyms() {
		in, keys := columns(s)
		if keys == "-" || !slices.Contains(strings.Fields(s.words), word) ||
			withoutIndices(parent) != in && (parent != "" || in != "vm") {
			continue
		}
		found := strings.Fields(keys)
		for i, key := range found {
			if rest, below := strings.CutPrefix(key, in+"."); below && parent != "" {
				found[i] = parent + "." + rest
			}
		}
		return found
	}
	return nil
}

// synonym is a row of words with the same meaning.
type synonym struct {
	in     string // path of the mapping with the word; words of the vm section may also be in the section itself
	words  string // in lower case, without separators
	keys   string // paths of the keys in a configuration
	fields string // paths of the fields in the resource's spec; "" if they are the same, "-" if there are none
}

func synonyms() []synonym {
	return []synonym{
		{"vm", "ram memory mem memorysize memorymib", "vm.currentRam vm.maximumRam", ""},
		{"vm", "maxmemory memorymax maxram", "vm.maximumRam", ""},
		{"vm", "currentmemory balloon", "vm.currentRam", ""},
		{"vm", "cpu vcpu cpus vcpus ncpus numcpus cpucount cores smp processors", "vm.currentCpus vm.maximumCpus", ""},
		{"vm", "maxcpus maxvcpus", "vm.maximumCpus", ""},
		{"vm", "threads", "vm.threadsPerCore", "vm.cpuTopology.threadsPerCore"},
		{"vm", "cpumode cputype processor", "vm.cpuModel", ""},
		{
			"vm", "disk drive disks drives volume storage volumes hdd harddisk rootdisk blockdevices", "vm.drives",
			"vm.disks",
		},
		{"vm", "image baseimage box images", "vm.drives[].source", "blockDeviceRefs"},
		{"vm", "cd cdrom dvd iso", "vm.drives[].file", "vm.disks[].cdrom"},
		{"vm", "boot bootorder bootdevice", "vm.drives[].bootindex", "vm.disks[].bootindex"},
		{"vm", "net nic nics network networks networking interface interfaces", "vm.network", "vm.networks"},
		{"vm", "mac macaddress", "vm.network[].mac", "vm.networks[].tap.mac"},
		{"vm", "port portforward ports portforwards hostfwd", "vm.network[].ports", "vm.networks[].user.ports"},
		{"vm", "hostname title vmname", "vm.name", "metadata.name"},
		{"vm", "name", "-", "metadata.name"},
		{"vm", "bios efi uefi ovmf loader secureboot", "vm.firmware", ""},
		{"vm", "tpm vtpm", "vm.useTpm", ""},
		{"vm", "machine chipset", "vm.machineType", "-"},
		{"vm", "accel acceleration hypervisor kvm", "vm.accelerator", ""},
		{"vm", "graphics gpu screen video", "vm.display", ""},
		{"vm", "vnc", "vm.display.vnc", ""},
		{"vm", "spice", "vm.display.spice", ""},
		{"vm", "console serial", "vm.serialConsole", "-"},
		{"vm", "append cmdline kernelargs", "vm.kernel.commandLine", ""},
		{"vm", "initramfs ramdisk", "vm.kernel.initrd", ""},
		{"vm", "clock rtc timezone", "vm.rtcBase", ""},
		{"vm", "graceperiod shutdowntimeout stoptimeout terminationgraceperiodseconds", "vm.powerdownTimeout", ""},
		{"vm", "cloudconfig provision ssh sshkeys user username users", "cloudInit.userData", ""},
		{"vm", "arch architecture os ostype type", "vmType", ""},
		{"vm", "autostart onboot restartpolicy running", "-", "runPolicy"},

		{"vm.drives[]", "filename img path", "vm.drives[].file", "-"},
		{"vm.drives[]", "image", "vm.drives[].file vm.drives[].source", "vm.disks[].cdrom vm.disks[].virtualDisk"},
		{"vm.drives[]", "url", "vm.drives[].source", "-"},
		{"vm.drives[]", "capacity disksize size", "vm.drives[].size", "vm.disks[].volumeClaimTemplate"},
		{"vm.drives[]", "boot bootorder order", "vm.drives[].bootindex", "vm.disks[].bootindex"},

		{"vm.network[]", "hwaddr macaddress", "vm.network[].mac", "vm.networks[].tap.mac"},
		{"vm.network[]", "card driver model", "vm.network[].device", "-"},
		{"vm.network[]", "cidr subnet", "vm.network[].net", "-"},
		{"vm.network[]", "forwards hostfwd portforwards", "vm.network[].ports", "vm.networks[].user.ports"},
		{"vm.network[]", "backend kind mode", "vm.network[].type", "-"},
		{"vm.network[]", "parent", "vm.network[].bridge", "vm.networks[].tap.bridge"},

		{"vm.network[].ports[]", "hostport", "vm.network[].ports[].host", "-"},
		{"vm.network[].ports[]", "guestport", "vm.network[].ports[].guest", "-"},
		{"vm.network[].ports[]", "proto", "vm.network[].ports[].protocol", "-"},
		{"vm.network[].ports[]", "bind hostip listen", "vm.network[].ports[].address", "-"},
	}
}
