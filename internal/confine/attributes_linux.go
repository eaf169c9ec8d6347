package confine

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
)

// attributeCalls returns the system calls that change the mode, owner, dates or attributes of a file, or watch a
// folder. Landlock has no rules for them. It returns nil if the numbers for this architecture are unknown.
func attributeCalls() []uint32 {
	calls := []uint32{
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
		unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
		463, 466, 469, // setxattrat, removexattrat, file_setattr: on all architectures
	}
	switch runtime.GOARCH {
	case "amd64": // chmod, chown, lchown, utime, utimes, futimesat, inotify_init
		return append(calls, 90, 92, 94, 132, 235, 261, 253)
	case "arm64":
		return calls
	}
	return nil
}

// denyAttributes denies attributeCalls to the calling thread, with EPERM. It also denies all calls of other
// architectures than the program's. The thread must have given up new privileges before.
func denyAttributes() error {
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if arch == 0 {
		return fmt.Errorf("it is not implemented for %s", runtime.GOARCH)
	}
	filter := attributeFilter(arch)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// x32 is set in the numbers of x86 calls with 32-bit pointers; no architecture has calls above it.
const x32 = 0x40000000

func attributeFilter(arch uint32) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
	)
	calls := attributeCalls()
	toDeny := uint8(len(calls))
	filter := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, K: arch, Jf: toDeny + 3},
		{Code: load, K: offsetCall},
		{Code: least, K: x32, Jt: toDeny + 1},
	}
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: equal, K: call, Jt: toDeny - uint8(i)})
	}
	return append(filter,
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
}
