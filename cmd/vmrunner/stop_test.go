package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// When stop --wait or stop --force returns, the VM has ended completely, including a helper that ends after QEMU. Until
// then ps shows the VM, independent of its runtime directory.
func TestStopWaitsForTheRunnersEnd(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 900",
		`options: {helper: {program: /bin/sh, arguments: ['-c', "trap 'sleep 1; exit' TERM; : >PATH/ready; while :; `+
			`do sleep 0.1; done"], ready: PATH/ready}}`)
	p := booted(t, dir)
	run := filepath.Join(dir, "run")
	require.Contains(t, listed(t), entry{Name: "test", RuntimeDir: run})

	// The guest or the runner takes longer than the time limit.
	out, err := exec.CommandContext(t.Context(), "vmrunner", "stop", "--runtime-dir", run, "--wait", "--timeout",
		"2s").CombinedOutput()
	require.Error(t, err)
	require.Regexp(t, `^vmrunner: the VM did not stop within 2s\n$`, string(out))

	out, err = exec.CommandContext(t.Context(), "vmrunner", "stop", "--runtime-dir", run,
		"--force").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "test: forced (host-qmp-quit)\n", string(out))
	require.NoDirExists(t, run)
	lock, err := os.Open(filepath.Join(dir, "data", "lock"))
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB), "a process of the VM lives")
	require.NotContains(t, listed(t), entry{Name: "test", RuntimeDir: run})
	require.Zero(t, p.exit())
}

// listed returns the output of ps without the status.
func listed(t *testing.T) []entry {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "vmrunner", "ps", "-o", "json").Output()
	require.NoError(t, err)
	var all []entry
	require.NoError(t, json.Unmarshal(out, &all))
	for i := range all {
		all[i].Status, all[i].Error = nil, ""
	}
	return all
}
