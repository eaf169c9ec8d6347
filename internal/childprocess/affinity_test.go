package childprocess_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/internal/confine"
)

// allowed returns the CPUs that a thread may use, in Linux's list format.
func allowed(t *testing.T, pid, thread int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(thread), "status"))
	require.NoError(t, err)
	_, list, found := strings.Cut(string(text), "Cpus_allowed_list:\t")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n")
	return list
}

// lastCPU returns the last CPU that this test may use.
func lastCPU(t *testing.T) int {
	t.Helper()
	list := allowed(t, os.Getpid(), os.Getpid())
	n, err := strconv.Atoi(list[strings.LastIndexAny(list, ",-")+1:])
	require.NoError(t, err)
	return n
}

// A process and its children run on the configured CPUs from the first instruction, with and without rules. Other
// processes keep their CPUs.
func TestAProcessRunsOnItsCPUs(t *testing.T) {
	t.Parallel()
	ours, cpu := allowed(t, os.Getpid(), os.Getpid()), lastCPU(t)
	for _, rules := range []*confine.Rules{nil, everywhere()} {
		spec := sh(`sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$$/status /proc/self/status`)
		spec.CPUs, spec.Rules = []int{cpu, 4000}, rules
		p, log := start(t, spec)
		require.Zero(t, hasEnded(t, p), p.Tail())
		require.NoError(t, p.Misplaced())
		require.Equal(t, []string{strconv.Itoa(cpu), strconv.Itoa(cpu)}, log.lines("stdout"))
	}
	require.Equal(t, ours, allowed(t, os.Getpid(), os.Getpid()))
}

// Missing CPUs do not prevent a process from starting.
func TestCPUsThatAreMissingAreTold(t *testing.T) {
	t.Parallel()
	spec := sh(`exec sleep 1000`)
	spec.CPUs = []int{4000, 8191}
	p, _ := start(t, spec)
	require.EqualError(t, p.Misplaced(),
		"they are offline, or the cpuset of the runner excludes them")
	require.Equal(t, allowed(t, os.Getpid(), os.Getpid()), allowed(t, p.Pid(), p.Pid()))
}

func TestOnlyThreadsOfTheProcessArePlaced(t *testing.T) {
	t.Parallel()
	one, _ := start(t, sh(`exec sleep 1000`))
	other, _ := start(t, sh(`exec sleep 1000`))
	cpu, before := lastCPU(t), allowed(t, other.Pid(), other.Pid())
	require.NoError(t, childprocess.Place(one.Pid(), one.Pid(), []int{cpu}))
	require.Equal(t, strconv.Itoa(cpu), allowed(t, one.Pid(), one.Pid()))
	for _, thread := range []int{other.Pid(), 0, -1} {
		require.EqualError(t, childprocess.Place(one.Pid(), thread, []int{cpu}),
			fmt.Sprintf("thread %d is not one of process %d", thread, one.Pid()))
	}
	require.Equal(t, before, allowed(t, other.Pid(), other.Pid()))
}
