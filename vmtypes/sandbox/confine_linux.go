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

// confine limits this process for the rest of its life. The limits are set by
// the child itself, before it reads a byte of the request: what runs until then
// is the program's own code.
func confine() error {
	now, err := addressSpace()
	if err != nil {
		return fmt.Errorf("find out how much memory it has: %w", err)
	}
	for _, l := range []struct {
		name     string
		resource int
		most     uint64
	}{
		// Go and the interpreter have reserved some GiB that they don't use. What
		// comes on top counts. RLIMIT_DATA would not do: Linux doesn't check it where
		// Go puts memory into a place that is reserved.
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

// reserved is what Go has reserved for the heap when a program begins, less what
// it needs to keep account of the heap.
const reserved = 32 << 20

// addressSpace returns the size of this process, in bytes.
func addressSpace() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	pages, err := strconv.ParseUint(first, 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

// filterCalls takes all system calls away but those that computing needs; the
// others are unknown from now on (seccomp(2)). A kernel without seccomp has the
// other limits still.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	program := filter()
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	switch errno {
	case 0, unix.ENOSYS, unix.EINVAL:
		return nil
	}
	return fmt.Errorf("filter system calls: %w", errno)
}

// Where struct seccomp_data has what (linux/seccomp.h); both of our
// architectures are little-endian.
const (
	dataCall     = 0
	dataArch     = 4
	dataArgument = 16
)

// filter is the program that judges a system call (classic BPF).
func filter() []unix.SockFilter {
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
	for _, call := range append(calls(), archCalls()...) {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(call), Jf: 1},
			verdict(unix.SECCOMP_RET_ALLOW))
	}
	// A thread is no new process.
	return append(program,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jt: 1},
		unknown,
		load(dataArgument),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jf: 1},
		verdict(unix.SECCOMP_RET_ALLOW),
		unknown)
}

// calls are what the Go runtime, and the C library below it if there is one,
// need for memory, threads, time, signals and open descriptors.
func calls() []int {
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
