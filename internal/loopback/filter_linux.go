package loopback

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// killable lets only fatal signals interrupt a call that waits for its answer (Linux 5.19).
const killable = 1 << 5

// Offsets in struct seccomp_data.
const (
	offsetCall    = 0
	offsetArch    = 4
	offsetAddress = 16 + 4*8 // the fifth argument of sendto(2)
)

// auditArchitecture returns seccomp(2)'s number for this architecture, or 0 if the filter doesn't support it.
func auditArchitecture() uint32 {
	return map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
}

// Deny makes the kernel ask about each connect(2), and each sendto(2) with an address, of the processes that the
// calling thread starts. Pass the file to Guard. The thread must be locked and end soon.
func Deny() (*os.File, error) {
	if auditArchitecture() == 0 {
		return nil, fmt.Errorf("it is not implemented for %s", runtime.GOARCH)
	}
	if err := mayContinue(); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	filter := filterProgram(auditArchitecture())
	attach := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := installFilter(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|killable, &attach)
	if errno == unix.EINVAL {
		fd, _, errno = installFilter(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, &attach)
	}
	runtime.KeepAlive(filter)
	if errno != 0 {
		return nil, fmt.Errorf("no notifications of system calls: %w", os.NewSyscallError("seccomp", errno))
	}
	return os.NewFile(fd, "system calls"), nil
}

func installFilter(flags uintptr, program *unix.SockFprog) (fd, other uintptr, errno unix.Errno) {
	return unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(program)))
}

// mayContinue returns an error if the kernel is too old to let a call continue after it has asked about it.
func mayContinue() error {
	var host unix.Utsname
	if err := unix.Uname(&host); err != nil {
		return os.NewSyscallError("uname", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(host.Release[:]), "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("read the version of the kernel: %w", err)
	}
	if major < 5 || major == 5 && minor < 5 {
		return errors.New("it requires Linux 5.5")
	}
	return nil
}

// filterProgram returns the filter. It allows calls of another architecture, because the host's QEMU never makes them.
func filterProgram(arch uint32) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
	)
	return []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, K: arch, Jf: 7},
		{Code: load, K: offsetCall},
		{Code: equal, K: unix.SYS_CONNECT, Jt: 6},
		{Code: equal, K: unix.SYS_SENDTO, Jf: 4},
		{Code: load, K: offsetAddress}, // both halves of a pointer
		{Code: equal, K: 0, Jf: 3},
		{Code: load, K: offsetAddress + 4},
		{Code: equal, K: 0, Jf: 1},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		{Code: answer, K: unix.SECCOMP_RET_USER_NOTIF},
	}
}
