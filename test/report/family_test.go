package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/logbook"
	"vmop/test/tier"
	"vmop/test/wait"
)

// TestMain runs report when a test requests it, because a family needs its own process.
func TestMain(m *testing.M) {
	if os.Getenv("REPORT_MAIN") != "" {
		main()
		return
	}
	if os.Getenv("REPORT_FAMILY") == "" {
		os.Exit(m.Run())
	}
	f, err := beFamily()
	if err == nil {
		err = f.startCommand(exec.Command("sh", "-c", os.Getenv("REPORT_FAMILY")))
	}
	if err == nil {
		err = f.endDescendants(context.Background(), os.Stdout)
	}
	if err != nil {
		os.Exit(1)
	}
}

// A process that a test has left running is ended and named, even if it has moved to its own session.
func TestLeftProcessesAreEndedAndNamed(t *testing.T) {
	t.Parallel()
	for script, names := range map[string]string{ // numbers that are no process's
		"(setsid sleep 5000000 &)":             "sleep 5000000",
		"(setsid sh -c 'sleep 5000001; :' &) ": "sleep 5000001",
		"(sleep 0.1 &)":                        "",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "REPORT_FAMILY="+script)
		out, err := cmd.CombinedOutput()
		if names == "" {
			require.NoError(t, err, string(out))
			continue
		}
		require.Error(t, err)
		require.Contains(t, string(out), names)
		for pid := range strings.FieldsSeq(string(out)) {
			require.NoFileExists(t, "/proc/"+pid+"/stat")
		}
	}
}

// lasting is a test that starts a process and doesn't end.
const lasting = `package a

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestLasts(t *testing.T) {
	sleep := exec.Command("sleep", "1002")
	sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile("began", []byte(t.TempDir()), 0o600)
	_ = sleep.Wait()
}

func TestQuick(t *testing.T) {}
`

// An interrupted run leaves no process and no temporary file, and its results so far can be read.
func TestAnEndedRunLeavesNothing(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := t.TempDir()
	fill(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.26\n")
	fill(t, filepath.Join(dir, "a/a_test.go"), lasting)
	fill(t, filepath.Join(dir, "b/b_test.go"), "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) {}\n")
	program, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-p=1", "./b", "./a")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "REPORT_MAIN=1", "TMPDIR="+dir)
	out := &logbook.Logbook{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	var folder []byte
	wait.Until(t, func() bool {
		folder, err = os.ReadFile(filepath.Join(dir, "a/began"))
		return err == nil && len(folder) > 0
	}, "%s", out)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Contains(t, out.String(), "the run was ended before all tests had run\n1 passed, 0 failed, 0 skipped\n")
	require.NoDirExists(t, string(folder))
	for pid, line := range commands(t) {
		require.NotContains(t, line, "sleep 1002", pid)
	}
	times, err := os.ReadFile(filepath.Join(dir, "build/test-times.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(times), `"test":"TestB","action":"pass"`)
}

// commands returns the command lines of all processes.
func commands(t *testing.T) map[int]string {
	t.Helper()
	all := map[int]string{}
	for pid := range allProcesses() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		all[pid] = strings.ReplaceAll(string(line), "\x00", " ")
	}
	return all
}
