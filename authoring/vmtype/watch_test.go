package vmtype_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A watched is a verb that keeps running.
type watched struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func startWatching(t *testing.T, dir, verb string, args ...string) *watched {
	t.Helper()
	w := &watched{t: t, cmd: exec.CommandContext(t.Context(), "vmrunner",
		append([]string{"vmtype", verb, "--watch"}, args...)...), lines: make(chan string, 100)}
	w.cmd.Dir = dir
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	w.cmd.Stderr = os.Stderr
	require.NoError(t, w.cmd.Start())
	go func() {
		defer close(w.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	return w
}

// until returns the lines up to a matching line.
func (w *watched) until(pattern string) []string {
	w.t.Helper()
	var seen []string
	for {
		select {
		case line, ok := <-w.lines:
			require.True(w.t, ok, "it ended after %q", seen)
			seen = append(seen, line)
			if matches(pattern, line) {
				return seen
			}
		case <-time.After(time.Minute):
			require.Fail(w.t, "waits for "+pattern, "%q", seen)
		}
	}
}

func matches(pattern, line string) bool {
	ok, err := filepath.Match(pattern, line)
	return ok && err == nil
}

// ends interrupts the verb, which is the normal way to end it.
func (w *watched) ends() {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Signal(syscall.SIGINT))
	for range w.lines {
	}
	require.NoError(w.t, w.cmd.Wait())
}

// folderOfTypes creates a folder with two types and their tests. write saves a file in one step, like an editor.
func folderOfTypes(t *testing.T) (dir string, write func(name, text string)) {
	t.Helper()
	dir, aside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	write = func(name, text string) {
		require.NoError(t, os.WriteFile(aside, []byte(text), 0o600))
		require.NoError(t, os.Rename(aside, filepath.Join(dir, name)))
	}
	const launch = "load(\"@vmtypes//standard.star\", standard = \"launch\")\n\ndef launch(vm, host):\n    return " +
		"standard(vm, host)\n"
	write("base.star", "tag = \"a\"\n")
	write("one.star", "load(\"base.star\", \"tag\")\n"+launch)
	write("two.star", launch)
	write("one_test.star", "load(\"@vmtypes//testing.star\", \"assert\")\nload(\"base.star\", \"tag\")\n\ndef "+
		"test_one():\n    assert.eq(tag, \"a\")\n")
	write("two_test.star", "load(\"two.star\", \"launch\")\n\ndef test_two():\n    pass\n")
	write("one.yaml", "\"/Runner\": {vmType: one, vm: {name: a}}\n")
	return dir, write
}

func TestWatchedTests(t *testing.T) {
	t.Parallel()
	dir, write := folderOfTypes(t)
	w := startWatching(t, dir, "test", "-v")
	require.Len(t, w.until("3 passed"), 4)
	// The files that load the module are tested again, as well as the sample of their type.
	write("base.star", "tag = \"bb\"\n")
	seen := w.until("*passed*")
	require.Equal(t, []string{"", "changed: base.star", "✗ one_test.star/test_one"}, seen[:3])
	require.Equal(t, "1 passed, 1 failed", seen[len(seen)-1])
	// Files that are neither modules nor samples are ignored.
	write("README", "x")
	write("two_test.star", "def test_two():\n    fail(\"no\")\n")
	seen = w.until("*passed*")
	require.Equal(t, []string{"", "changed: two_test.star", "✗ two_test.star/test_two"}, seen[:3])
	require.Equal(t, "0 passed, 1 failed", seen[len(seen)-1])
	// Errors and removed files do not end the verb.
	write("base.star", "tag = \n")
	seen = w.until("*passed*")
	require.Equal(t, "0 passed, 2 failed", seen[len(seen)-1])
	require.NoError(t, os.Remove(filepath.Join(dir, "base.star")))
	seen = w.until("*passed*")
	require.Equal(t, "0 passed, 2 failed", seen[len(seen)-1])
	write("base.star", "tag = \"a\"\n")
	seen = w.until("*passed*")
	require.Equal(t, "2 passed (2 cached)", seen[len(seen)-1], "as in the beginning")
	w.ends()
}

func TestWatchedChecks(t *testing.T) {
	t.Parallel()
	dir, write := folderOfTypes(t)
	w := startWatching(t, dir, "check", "-v")
	w.until("QEMU * 2 passed")
	write("two.star", "load(\"@vmtypes//standard.star\", standard = \"launch\")\n\ndef launch(vm, host):\n"+
		"    return combine(standard(vm, host), part(options = [option(\"-foo\")]))\n")
	seen := w.until("QEMU * failed")
	require.Equal(t, []string{"", "changed: two.star"}, seen[:2])
	require.Contains(t, seen, "    qemu-system-x86_64: -foo: invalid option")
	require.Contains(t, seen[len(seen)-3], "1 passed")
	for _, line := range seen {
		require.NotContains(t, line, "one")
	}
	w.ends()
}

// An interrupted check ends its QEMUs and prints nothing else.
func TestInterruptedCheck(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "vmrunner", "vmtype", "check", "../../vmtypes/testdata/golden")
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan()) // the first machine has been created
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	for lines.Scan() {
		require.NotContains(t, lines.Text(), "✗")
		require.NotContains(t, lines.Text(), "QEMU ")
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode())
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
}
