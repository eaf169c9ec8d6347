package qemuopt

import "strings"

// Implied describes what an option uses from the host without naming it.
type Implied struct {
	// Flag and Backend select the option; see Option for Backend. An empty Backend matches any backend.
	Flag, Backend string
	// Property, if set, is a property that the option must have, with a value other than off.
	Property string
	// Reads and Writes are files and folders, separated by blanks. Files in Writes are also read.
	Reads, Writes string
	// Capabilities are the capabilities that the kernel requires (capabilities(7)), in lower case without CAP_,
	// separated by blanks.
	Capabilities string
}

// devicesOfHost are the folders with the kernel's descriptions of devices.
const devicesOfHost = "/sys/bus /sys/class /sys/dev /sys/devices /sys/kernel/iommu_groups"

// foreignFiles are the capabilities that sharing a folder requires. With them, QEMU can create files that belong to the
// guest's users.
const foreignFiles = "chown dac_read_search fowner fsetid mknod setfcap"

var implied = []Implied{
	{Flag: "-accel", Backend: "kvm", Writes: "/dev/kvm"},
	{Flag: "-enable-kvm", Writes: "/dev/kvm"},
	{Flag: "-machine", Property: "accel", Writes: "/dev/kvm"},
	{Flag: "-netdev", Backend: "tap", Property: "vhost", Writes: "/dev/vhost-net"},
	{Flag: "-netdev", Backend: "tap", Property: "ifname", Writes: "/dev/net/tun"},
	{Flag: "-netdev", Backend: "vhost-vdpa", Property: "vhostdev", Reads: devicesOfHost, Capabilities: "ipc_lock"},
	{Flag: "-device", Backend: "vhost-vsock*", Writes: "/dev/vhost-vsock"},
	{Flag: "-device", Backend: "vhost-scsi*", Writes: "/dev/vhost-scsi"},
	{
		Flag: "-device", Backend: "vfio-*",
		Reads: devicesOfHost, Writes: "/dev/vfio /dev/iommu", Capabilities: "ipc_lock",
	},
	{Flag: "-device", Backend: "usb-host", Reads: devicesOfHost + " /run/udev", Writes: "/dev/bus/usb"},
	{Flag: "-device", Backend: "scsi-block", Capabilities: "sys_rawio"},
	{Flag: "-device", Backend: "scsi-generic", Capabilities: "sys_rawio"},
	{Flag: "-device", Backend: "virtio-*", Property: "blob", Writes: "/dev/udmabuf"},
	{Flag: "-display", Backend: "egl-headless", Reads: devicesOfHost, Writes: "/dev/dri"},
	{Flag: "-spice", Property: "gl", Reads: devicesOfHost, Writes: "/dev/dri"},
	{Flag: "-object", Backend: "sev-*", Writes: "/dev/sev", Capabilities: "ipc_lock"},
	{Flag: "-object", Backend: "memory-backend-epc", Writes: "/dev/sgx_vepc"},
	{Flag: "-overcommit", Property: "mem-lock", Capabilities: "ipc_lock"},
	{Flag: "-tpmdev", Backend: "passthrough", Reads: devicesOfHost, Writes: "/dev/tpm0"},
	{Flag: "-chardev", Backend: "pty", Writes: "/dev/ptmx /dev/pts"},
	{Flag: "-audiodev", Backend: "alsa", Writes: "/dev/snd"},
	{Flag: "-fsdev", Reads: "/proc", Capabilities: foreignFiles},
	{Flag: "-virtfs", Reads: "/proc", Capabilities: foreignFiles},
	{Flag: "-runas", Reads: "/etc/passwd /etc/group", Capabilities: "setgid setuid"},
	{Flag: "-run-with", Reads: "/etc/passwd /etc/group", Capabilities: "setgid setuid sys_chroot"},
	{Flag: "-chroot", Capabilities: "sys_chroot"},
}

// ImpliedBy returns what an option uses from the host without naming it. has reports whether a property is set to
// a value other than off.
func ImpliedBy(flag, backend string, has func(property string) bool) []Implied {
	flag = "-" + strings.TrimLeft(flag, "-")
	var list []Implied
	for _, i := range implied {
		if i.Flag == flag && (i.Backend == "" || matchesName(i.Backend, backend)) &&
			(i.Property == "" || has(i.Property)) {
			list = append(list, i)
		}
	}
	return list
}

func matchesName(name, backend string) bool {
	family, ok := strings.CutSuffix(name, "*")
	return name == backend || ok && strings.HasPrefix(backend, family)
}

// Unjudged reports whether the effect of an option is unknown: the table lacks a row for its flag, or a row for
// its backend if backends have their own rows.
func Unjudged(flag, backend string) bool {
	row := Flag(flag)
	switch {
	case row == nil:
		return true
	case row.Backed:
		return Exactly(flag, backend) == nil
	case flag == "-blockdev" && backend != "":
		own := Exactly(flag, backend)
		return own == nil || !own.Known && !own.Remote
	}
	return false
}
