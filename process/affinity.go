package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Place has a thread of a process run only on some CPUs of the host. The errors say what
// it is that the kernel refuses. A thread that isn't one of the process's is not touched:
// whoever names it may have a reason to name another's.
func Place(pid, thread int, cpus []int) error {
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(thread))); err != nil {
		return fmt.Errorf("thread %d is not one of process %d", thread, pid)
	}
	return place(thread, cpus)
}

// place is Place for any thread; 0 is the calling one.
func place(thread int, cpus []int) error {
	set := unix.NewCPUSet(max(slices.Max(cpus)+1, 1024))
	for _, n := range cpus {
		set.Set(n)
	}
	err := unix.SchedSetaffinityDynamic(thread, set)
	if errors.Is(err, unix.EINVAL) {
		return errors.New("the host has none of them online, or its cpuset leaves the runner none of them")
	}
	return os.NewSyscallError("sched_setaffinity", err)
}
