package confine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// capabilityNumbers returns the capabilities that rules can name.
func capabilityNumbers() map[string]int {
	return map[string]int{
		"chown": unix.CAP_CHOWN, "dac_override": unix.CAP_DAC_OVERRIDE, "dac_read_search": unix.CAP_DAC_READ_SEARCH,
		"fowner": unix.CAP_FOWNER, "fsetid": unix.CAP_FSETID, "ipc_lock": unix.CAP_IPC_LOCK, "mknod": unix.CAP_MKNOD,
		"net_bind_service": unix.CAP_NET_BIND_SERVICE, "setfcap": unix.CAP_SETFCAP, "setgid": unix.CAP_SETGID,
		"setuid": unix.CAP_SETUID, "sys_chroot": unix.CAP_SYS_CHROOT, "sys_rawio": unix.CAP_SYS_RAWIO,
	}
}

// keepOnly permanently drops all capabilities of the calling thread except the named ones. The ban on new privileges
// keeps an executed program from regaining them.
func keepOnly(names []string) error {
	var kept [2]uint32
	known := capabilityNumbers()
	for _, name := range names {
		n, ok := known[name]
		if !ok {
			return fmt.Errorf("keep the capability %s: the capability does not exist", name)
		}
		kept[n/32] |= 1 << (n % 32)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for i := range sets {
		sets[i].Permitted &= kept[i]
		sets[i].Effective &= kept[i]
		sets[i].Inheritable = 0
	}
	return os.NewSyscallError("capset", unix.Capset(&header, &sets[0]))
}
