package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// processesOf returns the IDs of a pod's processes that run a program. The nodes' processes are visible on the machine.
func (l *lab) processesOf(podUID, program string) []int {
	return l.search(func(cgroup string, words []string) bool {
		return strings.Contains(cgroup, "pod"+podUID) && filepath.Base(words[0]) == program
	})
}

// qemus returns the process IDs of a VM's QEMUs, on all nodes.
func (l *lab) qemus(vm string) []int {
	return l.search(func(_ string, words []string) bool { return guestOf(words) == vm })
}

// guestOf returns the VM of a QEMU process, or "".
func guestOf(words []string) string {
	at := slices.Index(words, "-name")
	if !strings.HasPrefix(filepath.Base(words[0]), "qemu-system-") || at < 0 || at+1 == len(words) {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(words[at+1], "guest="), ",")
	return name
}

// search returns the matching processes of the cluster's pods, the oldest first.
func (l *lab) search(want func(cgroup string, words []string) bool) []int {
	own := fmt.Sprintf("/kube%d-node", l.Number)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []childprocess.ID
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(cgroup), own) && want(string(cgroup), invariants.Arguments(pid)) {
			if id, err := childprocess.Identify(pid); err == nil {
				found = append(found, id)
			}
		}
	}
	slices.SortFunc(found, func(a, b childprocess.ID) int { return cmp.Or(cmp.Compare(a.Start, b.Start), a.PID-b.PID) })
	var pids []int
	for _, id := range found {
		pids = append(pids, id.PID)
	}
	return pids
}

// kill ends a process of a pod like kill -9.
func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
}

// ended waits until a process has ended.
func ended(t *testing.T, pid int) {
	t.Helper()
	wait.For(t, fmt.Sprintf("the end of process %d", pid), func() error {
		if id, err := childprocess.Identify(pid); err == nil && id.Runs() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
}

// watchQEMUs requires, as long as the test runs, that no VM has two QEMUs. During a migration there may be two, if at
// least one is waiting for the guest.
func (l *lab) watchQEMUs(t testing.TB) {
	t.Helper()
	meanwhile(t, func(context.Context) {
		running := map[string][]int{}
		for _, pid := range l.search(func(_ string, words []string) bool { return guestOf(words) != "" }) {
			words := invariants.Arguments(pid)
			if name := guestOf(words); !slices.Contains(words, "-incoming") {
				running[name] = append(running[name], pid)
			}
		}
		for name, pids := range running {
			if name != "" && len(pids) > 1 {
				t.Errorf("the VM %s has the QEMUs %v", name, pids)
			}
		}
	})
}
