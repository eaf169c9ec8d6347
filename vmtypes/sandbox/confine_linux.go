package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confineProcess limits this process for the rest of its life. The child sets the limits itself, before it reads the
// first byte of the request. Until then it only runs the program's own code.
func confineProcess() error {
	now, err := addressSpace()
	if err != nil {
		return fmt.Errorf("find out how much memory it has: %w", err)
	}
	for _, l := range []struct {
		name     string
		resource int
		most     uint64
	}{
		// Go and the interpreter have reserved some GiB of unused address space. Only additional memory counts.
		// RLIMIT_DATA would not work: Linux ignores it when Go maps memory into reserved address space.
		{"memory", unix.RLIMIT_AS, now + Memory - reserved},
		{"processor time", unix.RLIMIT_CPU, uint64(hardCPU / time.Second)},
		{"core files", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"descriptors", unix.RLIMIT_NOFILE, 16},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limit its %s: %w", l.name, err)
		}
	}
	return filterCalls()
}

// reserved is the size that Go reserves for the heap when a program starts, minus the memory for the heap's
// bookkeeping.
const reserved = 32 << 20

// addressSpace returns the size of this process's address space, in bytes.
func addressSpace() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	pages, err := strconv.ParseUint(first, 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

// filterCalls allows only the system calls that are needed to compute. All others fail as unknown (seccomp(2)).
// On a kernel without seccomp, the other limits still apply.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	program := syscallFilter()
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	switch errno {
	case 0, unix.ENOSYS, unix.EINVAL:
		return nil
	}
	return fmt.Errorf("filter system calls: %w", errno)
}

// Offsets in struct seccomp_data (linux/seccomp.h). Both supported architectures are little-endian.
const (
	dataCall     = 0
	dataArch     = 4
	dataArgument = 16
)

// syscallFilter returns the BPF program (classic BPF) that checks a system call.
func syscallFilter() []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	verdict := func(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
	unknown := verdict(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
	program := []unix.SockFilter{
		load(dataArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1},
		verdict(unix.SECCOMP_RET_KILL_PROCESS),
		load(dataCall),
	}
	for _, call := range append(allowedCalls(), archCalls()...) {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(call), Jf: 1},
			verdict(unix.SECCOMP_RET_ALLOW))
	}
	// Allow clone for threads only, not for processes.
	return append(program,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jt: 1},
		unknown,
		load(dataArgument),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jf: 1},
		verdict(unix.SECCOMP_RET_ALLOW),
		unknown)
}

// allowedCalls returns the system calls that the Go runtime and the C library (if any) need for memory, threads, time,
// signals and open descriptors.
func allowedCalls() []int {
	return []int{
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_PIPE2,
		unix.SYS_EVENTFD2,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE,
		unix.SYS_BRK,
		unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
		unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_TGKILL, unix.SYS_GETRUSAGE, unix.SYS_GETRANDOM,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
		unix.SYS_RESTART_SYSCALL,
		unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
		unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	}
}
