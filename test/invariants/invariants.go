// Package invariants checks the conditions that hold for a VM after every kind of failure: the guest's data is intact,
// at most one QEMU runs, and all resources are freed when the VM has ended. (Tests of the runner check that the guest
// survives and that status and log are correct.)
//
// A VM is identified by its folder, which contains its data, its sockets and its disks. The package works only on
// Linux.
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

// QEMU is the program that runs VMs.
const QEMU = "qemu-system-x86_64"

// Processes returns the processes of a VM, by program name: every process with an open file in its folder (QEMU holds
// the lock) or with its working directory there. It ignores the caller and forked children that have not executed
// another program.
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

// usesFolder reports whether a process uses a folder. The process may end at any time.
func usesFolder(pid int, dir string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range append(links, fmt.Sprintf("/proc/%d/cwd", pid)) {
		if path, _ := os.Readlink(link); strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// Arguments returns the command line of a process, or one empty word if it has ended.
func Arguments(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// Capabilities returns the capabilities of a process (capabilities(7)) as a bit mask.
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

// OneQEMU requires that exactly one QEMU runs the VM, and returns its process ID.
func OneQEMU(t testing.TB, dir string) int {
	t.Helper()
	all := Processes(t, dir)[QEMU]
	require.Len(t, all, 1, "a VM has one QEMU")
	return all[0]
}

// NoProcess requires that the VM has no processes. It waits, because the kernel needs time to end killed processes.
func NoProcess(t testing.TB, dir string) {
	t.Helper()
	var found map[string][]int
	wait.Until(t, func() bool {
		found = Processes(t, dir)
		return len(found) == 0
	}, "processes are left: %v", &found)
}

// NothingLeft requires that a VM that has ended leaves no process, no runtime directory, no temporary file and no
// kernel resource (see leftovers).
func NothingLeft(t testing.TB, dir string) {
	t.Helper()
	NoProcess(t, dir)
	_, err := os.Stat(filepath.Join(dir, "run"))
	require.ErrorIs(t, err, fs.ErrNotExist, "the runtime directory is left")
	const swtpms = ".lock" // swtpm does not remove it
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

// Files returns hashes of the files that a guest must never lose, by file name: the firmware's variables, the TPM's
// state, the machine's identity.
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

// NewDisk creates a qcow2 disk of 16 MiB with text in its first sector.
func NewDisk(t testing.TB, path, text string) {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	require.NoError(t, os.WriteFile(raw, []byte(fmt.Sprintf("%-512s", text)), 0o600))
	require.NoError(t, os.Truncate(raw, 16<<20))
	runTool(t, "qemu-utils", "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path)
}

// WholeDisk requires that a disk of NewDisk is intact and contains text.
func WholeDisk(t testing.TB, path, text string) {
	t.Helper()
	runTool(t, "qemu-utils", "qemu-img", "check", "-f", "qcow2", path)
	raw := filepath.Join(t.TempDir(), "raw")
	runTool(t, "qemu-utils", "qemu-img", "convert", "-f", "qcow2", "-O", "raw", path, raw)
	data, err := os.ReadFile(raw)
	require.NoError(t, err)
	require.Equal(t, text, strings.TrimRight(string(data[:512]), " "))
}

// runTool runs a program of a Debian package, which must succeed.
func runTool(t testing.TB, debian string, words ...string) {
	t.Helper()
	path, err := exec.LookPath(words[0])
	require.NoError(t, err, "install the Debian package %s", debian)
	out, err := exec.CommandContext(t.Context(), path, words[1:]...).CombinedOutput()
	require.NoError(t, err, "%q:\n%s", words, out)
}
