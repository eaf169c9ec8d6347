package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock's rights for each kind of access.
const (
	reads = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	writes = reads | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
	never     = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	ofOneFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// Version of the interface that introduced each feature after the first version (landlock(7)).
const (
	abiRefer    = 2
	abiTruncate = 3
	abiTCP      = 4
	abiIoctl    = 5
	abiScope    = 6
)

// ABI returns the version of the kernel's Landlock interface, or 0 if the kernel lacks it or doesn't permit it here.
func ABI() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// handledRights returns the rights that are denied unless a rule allows them.
func handledRights(abi int, r *Rules) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: writes | never}
	if abi < abiRefer {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < abiTruncate {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < abiIoctl {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= abiTCP && !r.Listen.Any {
		attr.Handled_access_net |= unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	if abi >= abiTCP && !r.Connect.Any {
		attr.Handled_access_net |= unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= abiScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// restrictThread restricts the calling thread. It disables the audit log, because denials are expected and a guest
// could cause any number of them.
func (r *Rules) restrictThread(held *Held) error {
	abi := ABI()
	if abi == 0 {
		held.noteLack("no Landlock: the kernel (5.13 or newer) is built or started without it, or a container forbids it")
		return nil
	}
	attr := handledRights(abi, r)
	// Older kernels refuse a longer structure only if the fields that they don't support aren't zero.
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)),
		unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("make rules: %w", os.NewSyscallError("landlock_create_ruleset", errno))
	}
	defer unix.Close(int(ruleset))
	for _, p := range r.Paths {
		if err := p.addTo(ruleset, attr.Handled_access_fs); err != nil {
			return fmt.Errorf("make a rule for %s: %w", p.Name, err)
		}
	}
	err := errors.Join(
		addPorts(ruleset, attr.Handled_access_net&unix.LANDLOCK_ACCESS_NET_BIND_TCP, r.Listen),
		addPorts(ruleset, attr.Handled_access_net&unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, r.Connect),
	)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	held.Landlock = abi
	noteMissingRights(abi, held)
	return nil
}

// noteMissingRights records what an old kernel doesn't support.
func noteMissingRights(abi int, held *Held) {
	for _, known := range []struct {
		since int
		what  string
	}{
		{abiTruncate, "files that may only be read can be truncated (Linux 6.2)"},
		{abiTCP, "no rules for TCP ports (Linux 6.7)"},
		{abiIoctl, "no rules for ioctl on devices (Linux 6.10)"},
		{abiScope, "processes outside can be signalled, and abstract sockets reached (Linux 6.12)"},
	} {
		if abi < known.since {
			held.noteLack("%s", known.what)
		}
	}
}

// addTo adds the rule for a path if the path exists and is accessible.
func (p Path) addTo(ruleset uintptr, handled uint64) error {
	fd, err := unix.Open(p.Name, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return err
	case err != nil:
		return nil
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return err
	}
	allowed := p.allowedRights(s.Mode&unix.S_IFMT == unix.S_IFDIR) & handled
	if allowed == 0 {
		return nil
	}
	return addRule(ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&unix.LandlockPathBeneathAttr{
		Allowed_access: allowed, Parent_fd: int32(fd),
	}))
}

// allowedRights returns the Landlock rights for a path.
func (p Path) allowedRights(folder bool) (access uint64) {
	switch {
	case p.Access&Write != 0:
		access = writes
	case p.Access&Read != 0:
		access = reads
	}
	if p.Access&Sockets != 0 {
		access |= unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	}
	if !folder {
		access &= ofOneFile
	}
	return access
}

func addPorts(ruleset uintptr, access uint64, ports Ports) error {
	if access == 0 {
		return nil
	}
	list := ports.List
	if ports.Free {
		list = append(slices.Clip(list), 0) // landlock(7): 0 lets bind(2) use a port that the kernel chooses
	}
	for _, port := range list {
		attr := netPort{access, uint64(port)}
		if err := addRule(ruleset, ruleNetPort, unsafe.Pointer(&attr)); err != nil {
			return fmt.Errorf("make a rule for port %d: %w", port, err)
		}
	}
	return nil
}

// netPort is struct landlock_net_port_attr, and ruleNetPort is its rule type; package unix lacks both.
type netPort struct{ access, port uint64 }

const ruleNetPort = 2

func addRule(ruleset, kind uintptr, attr unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, kind, uintptr(attr), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}
