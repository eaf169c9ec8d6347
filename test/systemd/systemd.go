// Package systemd starts a separate systemd for a test of the project's units.
package systemd

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

// Manager is a systemd, the first process of a PID namespace. It needs root and the Debian package systemd.
type Manager struct {
	t      *testing.T
	dir    string // of the script
	pid    int
	groups []string // patterns of its control groups
}

// New starts a systemd with a shell script, birth. prepare writes files into the script's folder. The shell runs in its
// own namespaces and replaces itself with systemd. The project's services write to /run/vmrunner.log, because no
// journal runs.
func New(t *testing.T, birth string, prepare func(*Manager)) *Manager {
	t.Helper()
	m := &Manager{t: t}
	var err error
	m.dir, err = os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(m.dir)) })
	require.NoError(t, os.Mkdir(m.Path("units"), 0o755))
	m.Write("birth", birth)
	prepare(m)
	for _, unit := range []string{"vmrunner@", "vmmanager-local"} { // no journal runs
		m.Write("units/"+unit+".service.d/log.conf",
			"[Service]\nStandardOutput=append:/run/vmrunner.log\nStandardError=append:/run/vmrunner.log\n")
	}

	var said bytes.Buffer
	// The shell ends systemd when its input ends, even if the test is killed.
	m.Write("enter", m.makeGroups()+"exec unshare --mount --pid --ipc --uts --net --fork --kill-child sh birth")
	cmd := exec.Command("sh", "-c", "sh enter </dev/null & cat >/dev/null; kill -KILL $!; wait $!")
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, &said, &said
	alive, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		services, _ := m.Command("cat", "/run/vmrunner.log").CombinedOutput() // if systemd has started
		require.NoError(t, alive.Close())
		_ = cmd.Wait() // unshare and everything below it were killed
		if t.Failed() {
			t.Logf("systemd said:\n%s\nits services said:\n%s", &said, services)
		}
		m.removeGroups()
	})
	m.Eventually(func() bool {
		m.pid = firstChild(firstChild(cmd.Process.Pid))
		return m.pid != 0 && m.Try("systemctl", "is-active", "basic.target") == nil
	}, "systemd does not come up (this test needs root and the Debian package systemd)")
	return m
}

// firstChild returns the first child of a process, or 0 without children.
func firstChild(pid int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	first, _, _ := strings.Cut(string(children), " ")
	number, _ := strconv.Atoi(first)
	return number
}

// makeGroups creates control groups for systemd below this process's own group, and returns shell commands that enter
// them. There is one tree of groups, or in older setups one for each controller, of which two matter here.
func (m *Manager) makeGroups() (enter string) {
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(m.t, err)
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, known := map[string]string{
			"":             "/sys/fs/cgroup/unified",
			"name=systemd": "/sys/fs/cgroup/systemd",
		}[parts[1]]
		if !known {
			continue
		}
		if _, err := os.Stat(root); err != nil {
			root = "/sys/fs/cgroup"
		}
		name := filepath.Join(parts[2], "vmrunner-test-"+filepath.Base(m.dir))
		group := filepath.Join(root, name)
		require.NoError(m.t, os.Mkdir(group, 0o755), "make a control group (this test needs root)")
		enter += "echo $$ >" + group + "/cgroup.procs && "
		// systemd creates it for each controller
		m.groups = append(m.groups, group, filepath.Join("/sys/fs/cgroup/*", name))
	}
	return enter
}

// removeGroups removes the control groups as soon as the kernel has ended their processes.
func (m *Manager) removeGroups() {
	m.Eventually(func() bool {
		left := 0
		for _, pattern := range m.groups {
			groups, _ := filepath.Glob(pattern)
			for _, group := range groups {
				left += removeTree(group)
			}
		}
		return left == 0
	}, "control groups are left")
}

// removeTree removes a control group and its subgroups, the innermost first, and returns how many can't be removed yet.
func removeTree(group string) (left int) {
	var all []string
	_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(all) {
		if os.Remove(dir) != nil {
			left++
		}
	}
	return left
}

// Path returns the path of a file in the folder of the script.
func (m *Manager) Path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

// Write writes a file into that folder.
func (m *Manager) Write(name, text string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(filepath.Dir(m.Path(name)), 0o755))
	require.NoError(m.t, os.WriteFile(m.Path(name), []byte(text), 0o600))
}

// Eventually waits until is returns true.
func (m *Manager) Eventually(is func() bool, otherwise string) {
	m.t.Helper()
	wait.Until(m.t, is, otherwise)
}

// Command returns a command that runs in systemd's namespaces.
func (m *Manager) Command(words ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{
		"--target", strconv.Itoa(m.pid), "--root", "--mount", "--pid", "--net", "--",
	}, words...)...)
}

// Try runs a command in systemd's namespaces.
func (m *Manager) Try(words ...string) error { return m.Command(words...).Run() }

// Run runs a command in systemd's namespaces that must succeed, and returns its output.
func (m *Manager) Run(words ...string) string {
	m.t.Helper()
	out, err := m.Command(words...).CombinedOutput()
	require.NoError(m.t, err, "%q: %s", words, out)
	return strings.TrimSpace(string(out))
}

// Property returns a property of a unit.
func (m *Manager) Property(unit, name string) string {
	m.t.Helper()
	return m.Run("systemctl", "show", "--value", "--property", name, unit)
}

// Of returns the manager for a subtest.
func (m *Manager) Of(t *testing.T) *Manager {
	part := *m
	part.t = t
	return &part
}

// Programs returns the names of the processes in a service's control group.
func (m *Manager) Programs(service string) (names []string) {
	m.t.Helper()
	for _, group := range m.groups {
		found, _ := filepath.Glob(filepath.Join(group, "system.slice", "*", service+".service", "cgroup.procs"))
		for _, file := range found {
			pids, _ := os.ReadFile(file) // the file disappears with the last process
			for _, pid := range strings.Fields(string(pids)) {
				text, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
				program, _, _ := strings.Cut(string(text), "\x00")
				names = append(names, filepath.Base(program))
			}
		}
		if len(names) > 0 { // older control groups have several trees
			return names
		}
	}
	return nil
}
