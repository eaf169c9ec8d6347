package guest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inConfiguration matches a command line in a VM's configuration. Without KVM, the VM type adds no_timer_check to it,
// which vmtypes/testdata/tests/machine_test.star tests.
var inConfiguration = regexp.MustCompile(`commandLine\b|<cmdline>`)

// unsafeCommandLine reports whether a line of a file contains a kernel command line of a guest that may panic.
func unsafeCommandLine(name, line string) bool {
	if !strings.Contains(line, "panic=-"+"1") || strings.Contains(line, "no_timer_check") ||
		strings.Contains(line, "console=ttyAMA0") { // arm64 has another timer
		return false
	}
	return filepath.Ext(name) == ".go" || !inConfiguration.MatchString(line)
}

// Every command line of a tiny guest in this repository disables the kernel's timer check, or a VM type adds the
// option.
func TestCommandLinesLeaveOutTheTimerCheck(t *testing.T) {
	t.Parallel()
	require.True(t, unsafeCommandLine("a_test.go", `"-append", "console=ttyS0 panic=-`+`1",`))
	require.True(t, unsafeCommandLine("a.md", `    qemu -append "console=ttyS0 panic=-`+`1"`))
	require.False(t, unsafeCommandLine("a.yaml", `  commandLine: console=ttyS0 panic=-`+`1`))
	seen := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "third_party" || entry.Name() == "build" || entry.Name() == ".git") {
			return fs.SkipDir
		}
		switch filepath.Ext(path) {
		case ".go", ".txtar", ".txt", ".yaml", ".md", ".sh", ".star":
		default:
			if !strings.Contains(path, "/scripts/") {
				return nil
			}
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		for n, line := range strings.Split(string(content), "\n") {
			if unsafeCommandLine(path, line) {
				t.Errorf("%s:%d: the kernel may panic on a busy computer; use guest.CommandLine, or add no_timer_check: %s",
					path, n+1, line)
			}
		}
		return nil
	}))
	require.Greater(t, seen, 1000)
}
