package runner_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// allowedCPUs returns the host CPUs on which the named threads of a process may run.
func allowedCPUs(t *testing.T, pid int, thread string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/status"))
	require.NoError(t, err)
	var found []string
	for _, name := range names {
		text, _ := os.ReadFile(name) // the thread may have ended
		if !strings.HasPrefix(string(text), "Name:\t"+thread) {
			continue
		}
		_, list, _ := strings.Cut(string(text), "Cpus_allowed_list:\t")
		list, _, _ = strings.Cut(list, "\n")
		found = append(found, list)
	}
	return strings.Join(slices.Compact(found), " ")
}

// The guest's CPUs, including hot-plugged CPUs, run on the host CPUs that the type assigns. A missing host CPU does not
// prevent the start.
func TestCPUsRunWhereTheTypeHasThemRun(t *testing.T) {
	t.Parallel()
	v := changeable(t, "currentCpus: 1")
	all := allowedCPUs(t, os.Getpid(), "")
	last := all[strings.LastIndexAny(all, " ,-")+1:]
	configure := func(count string) {
		lines := v.section("currentCpus: " + count)
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "options: {") })
		lines[i] = strings.Replace(lines[i], "{", "{cpu: "+last+", ", 1)
		v.configure("placed", nil, lines...)
	}
	configure("1")
	v.runs()
	qemu := v.qemu()
	require.Equal(t, last, allowedCPUs(t, qemu, "CPU 0/"))
	require.Equal(t, last, allowedCPUs(t, v.processes()["sleep"], "sleep"))
	both := allowedCPUs(t, qemu, "qemu-system")
	require.Contains(t, []string{"0-1", "0"}, both)

	configure("3")
	eventually(t, last, func() string { return allowedCPUs(t, qemu, "CPU 2/") })
	require.NotEqual(t, "4000", allowedCPUs(t, qemu, "CPU 1/"))
	v.becomes("the CPU is missed", func(s status.Status) bool {
		return len(s.Problems) == 1 && s.Problems[0].Path == "vmType" &&
			strings.HasPrefix(s.Problems[0].Message, "the guest's CPU 1 does not run on 4000 of the host alone: ")
	})
	require.Equal(t, both, allowedCPUs(t, qemu, "qemu-system"))
	v.ends()
}
