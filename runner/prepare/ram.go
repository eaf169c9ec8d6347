package prepare

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"vmop/vmspec"
)

// tooMuchRAM returns an error for more RAM than this computer has, unless its kernel promises more than it has.
func tooMuchRAM(ram vmspec.Bytes) *vmspec.Fault {
	var have unix.Sysinfo_t
	if err := unix.Sysinfo(&have); err != nil {
		return nil
	}
	unit := uint64(have.Unit)
	mode, _ := os.ReadFile("/proc/sys/vm/overcommit_memory") // without it, the kernel's default is assumed
	return ramFault(ram, uint64(have.Totalram)*unit, uint64(have.Totalswap)*unit, strings.TrimSpace(string(mode)))
}

// alwaysOvercommits is the kernel's mode without a limit for allocations.
const alwaysOvercommits = "1"

// ramFault implements tooMuchRAM. The kernel refuses a process more than the sum of RAM and swap.
func ramFault(wanted vmspec.Bytes, ram, swap uint64, mode string) *vmspec.Fault {
	if uint64(wanted) <= ram+swap || mode == alwaysOvercommits {
		return nil
	}
	has := fmt.Sprintf("this computer has %.1f GiB", toGiB(ram))
	if swap > 0 {
		has += fmt.Sprintf(" and %.1f GiB of swap", toGiB(swap))
	}
	return &vmspec.Fault{
		Path: "vm.maximumRam", Message: fmt.Sprintf("is %s, and %s", wanted, has), Hint: "choose less",
	}
}

func toGiB(n uint64) float64 { return float64(n) / float64(vmspec.GiB) }
