// Package invariants holds what tests require of a VM whatever has gone wrong:
// the guest's data is whole, there is at most one QEMU, and nothing is left when
// the VM has ended. (That the guest lives, and that the status and the log tell
// the truth, is asked of the runner itself.)
//
// A VM is known by its folder, below which are its data, its sockets and its
// disks. Only Linux has what this needs.
package invariants

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

// QEMU is the program that VMs run in.
const QEMU = "qemu-system-x86_64"

// Processes returns the processes of a VM, by their programs' names: all that
// have a file of its folder open (QEMU has the lock), or work in there. The
// caller, and its children before they have become others, don't count.
func Processes(t testing.TB, dir string) map[string][]int {
	t.Helper()
	found := map[string][]int{}
	proc, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range proc {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !usesFolder(pid, dir) {
			continue
		}
		if program := Arguments(pid)[0]; program != os.Args[0] {
			name := filepath.Base(program)
			found[name] = append(found[name], pid)
		}
	}
	return found
}

// usesFolder reports whether a process, which may end meanwhile, uses a folder.
func usesFolder(pid int, dir string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range append(links, fmt.Sprintf("/proc/%d/cwd", pid)) {
		if path, _ := os.Readlink(link); strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// Arguments returns the command line of a process, one empty word if it has
// ended.
func Arguments(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// Capabilities returns what a process may do (capabilities(7)), a bit each.
func Capabilities(t testing.TB, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, line, found := strings.Cut(string(text), "\nCapPrm:")
	require.True(t, found)
	digits, _, _ := strings.Cut(line, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
	require.NoError(t, err)
	return set
}

// OneQEMU requires that exactly one QEMU runs the VM, and returns its number.
func OneQEMU(t testing.TB, dir string) int {
	t.Helper()
	all := Processes(t, dir)[QEMU]
	require.Len(t, all, 1, "a VM has one QEMU")
	return all[0]
}

// NoProcess requires that the VM has no process any more. What was killed is
// gone when the kernel comes round to it.
func NoProcess(t testing.TB, dir string) {
	t.Helper()
	var found map[string][]int
	wait.Until(t, func() bool {
		found = Processes(t, dir)
		return len(found) == 0
	}, "processes are left: %v", &found)
}

// NothingLeft requires that nothing is left of a VM that has ended: no process or runtime
// directory, no file that was being written, and nothing of the kernel's (see left).
func NothingLeft(t testing.TB, dir string) {
	t.Helper()
	NoProcess(t, dir)
	_, err := os.Stat(filepath.Join(dir, "run"))
	require.ErrorIs(t, err, fs.ErrNotExist, "the runtime directory is left")
	const swtpms = ".lock" // swtpm leaves it
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(entry.Name(), ".") && entry.Type().IsRegular() && entry.Name() != swtpms {
			err = fmt.Errorf("a temporary file is left: %s", path)
		}
		return err
	})
	require.NoError(t, err)
	var found []string
	wait.Until(t, func() bool {
		found = leftovers(t, dir)
		return len(found) == 0
	}, "something is left: %q", &found)
}

// Files are what a guest must never lose, as hashes by the file's name: the
// firmware's variables, the TPM's state, who the machine is.
func Files(t testing.TB, dataDir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"uuid.txt", "fw-vars.fd", "tpm2-00.permall"} {
		text, err := os.ReadFile(filepath.Join(dataDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		files[name] = fmt.Sprintf("%d bytes %x", len(text), sha256.Sum256(text))
	}
	return files
}

// NewDisk makes a disk of 16 MiB in the format qcow2, whose first sector says
// text.
func NewDisk(t testing.TB, path, text string) {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	require.NoError(t, os.WriteFile(raw, []byte(fmt.Sprintf("%-512s", text)), 0o600))
	require.NoError(t, os.Truncate(raw, 16<<20))
	runTool(t, "qemu-utils", "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path)
}

// WholeDisk requires that the disk of NewDisk is whole and says what it did.
func WholeDisk(t testing.TB, path, text string) {
	t.Helper()
	runTool(t, "qemu-utils", "qemu-img", "check", "-f", "qcow2", path)
	raw := filepath.Join(t.TempDir(), "raw")
	runTool(t, "qemu-utils", "qemu-img", "convert", "-f", "qcow2", "-O", "raw", path, raw)
	data, err := os.ReadFile(raw)
	require.NoError(t, err)
	require.Equal(t, text, strings.TrimRight(string(data[:512]), " "))
}

// runTool runs a program of a Debian package, which must be happy.
func runTool(t testing.TB, debian string, words ...string) {
	t.Helper()
	path, err := exec.LookPath(words[0])
	require.NoError(t, err, "install the Debian package %s", debian)
	out, err := exec.CommandContext(t.Context(), path, words[1:]...).CombinedOutput()
	require.NoError(t, err, "%q:\n%s", words, out)
}
