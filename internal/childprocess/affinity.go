package childprocess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Place restricts a thread of a process to some CPUs of the host. Errors describe what the kernel refused. Place
// refuses a thread of another process, because the source of the number may name such a thread deliberately.
func Place(pid, thread int, cpus []int) error {
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(thread))); err != nil {
		return fmt.Errorf("thread %d is not one of process %d", thread, pid)
	}
	return placeThread(thread, cpus)
}

// placeThread is Place without the check; thread 0 is the calling thread.
func placeThread(thread int, cpus []int) error {
	set := unix.NewCPUSet(max(slices.Max(cpus)+1, 1024))
	for _, n := range cpus {
		set.Set(n)
	}
	err := unix.SchedSetaffinityDynamic(thread, set)
	if errors.Is(err, unix.EINVAL) {
		return errors.New("they are offline, or the cpuset of the runner excludes them")
	}
	return os.NewSyscallError("sched_setaffinity", err)
}
