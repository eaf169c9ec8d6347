package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manager is a systemd of the test's own, the first process of a PID
// namespace. /run, /etc/opt, /var/lib and /usr/local/bin below it are its own,
// the rest is this machine's. It needs root and the Debian package systemd.
type manager struct {
	t      *testing.T
	dir    string // holds etc, lib and bin, which systemd has for the last three
	pid    int
	groups []string // patterns of its control groups
}

// birth makes a systemd in the test's folder, from a shell that is in
// namespaces of its own.
const birth = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount --bind lib /var/lib
mount --bind etc /etc/opt
mount --bind bin /usr/local/bin
mkdir -p /run/systemd/system
for unit in sysinit basic shutdown network-online remote-fs; do
	printf "[Unit]\nDefaultDependencies=no\n" >/run/systemd/system/$unit.target
done
cp -r units/* /run/systemd/system/
cd /
export container=test SYSTEMD_UNIT_PATH=/run/systemd/system
exec /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
`

// newManager starts a systemd with the unit of vmrunner, and vmrunner.
func newManager(t *testing.T) *manager {
	t.Helper()
	return newManagerBy(t, birth, func(m *manager) {
		require.NoError(t, os.Rename(build(t), m.path("bin")))
		unit, err := os.ReadFile("systemd/vmrunner@.service")
		require.NoError(t, err)
		m.write("units/vmrunner@.service", string(unit))
	})
}

// newManagerBy starts a systemd by a script, in a folder that has what the script needs.
func newManagerBy(t *testing.T, birth string, prepare func(m *manager)) *manager {
	t.Helper()
	m := &manager{t: t}
	var err error
	m.dir, err = os.MkdirTemp("", "s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(m.dir)) })
	for _, dir := range []string{"etc/vmrunner", "lib", "units"} {
		require.NoError(t, os.MkdirAll(m.path(dir), 0o755))
	}
	m.write("birth", birth)
	prepare(m)
	for _, unit := range []string{"vmrunner@", "vmmanager-local"} { // no journal runs
		m.write("units/"+unit+".service.d/log.conf",
			"[Service]\nStandardOutput=append:/run/vmrunner.log\nStandardError=append:/run/vmrunner.log\n")
	}

	said := newTranscript()
	// The shell ends systemd when its input ends: also with a test that is killed.
	m.write("enter", m.makeGroups()+"exec unshare --mount --pid --ipc --uts --net --fork --kill-child sh birth")
	cmd := exec.Command("sh", "-c", "sh enter </dev/null & cat >/dev/null; kill -KILL $!; wait $!")
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, said, said
	alive, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			services, _ := m.command("cat", "/run/vmrunner.log").CombinedOutput() // if it has come up
			t.Logf("systemd said:\n%s\nvmrunner said:\n%s", said, services)
		}
		require.NoError(t, alive.Close())
		_ = cmd.Wait() // unshare was killed, and with it all that was started in there
		m.removeGroups()
	})
	m.eventually(func() bool {
		m.pid = child(child(cmd.Process.Pid))
		return m.pid != 0 && m.try("systemctl", "is-active", "basic.target") == nil
	}, "systemd does not come up (this test needs root and the Debian package systemd)")
	return m
}

// child returns the first child of a process, 0 if there is none yet.
func child(pid int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	first, _, _ := strings.Cut(string(children), " ")
	number, _ := strconv.Atoi(first)
	return number
}

// makeGroups makes control groups for systemd, below this process's own, and
// returns the shell's commands that enter them. There is one tree of groups, or
// in older setups two that matter here, beside one for each controller.
func (m *manager) makeGroups() (enter string) {
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
		// systemd makes it for each controller
		m.groups = append(m.groups, group, filepath.Join("/sys/fs/cgroup/*", name))
	}
	return enter
}

// removeGroups removes the control groups as soon as the kernel has ended who
// is in them.
func (m *manager) removeGroups() {
	m.eventually(func() bool {
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

// removeTree removes a control group and those in it, the innermost first, and
// returns how many can't be removed yet.
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

func (m *manager) path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

func (m *manager) write(name, text string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
	require.NoError(m.t, os.WriteFile(m.path(name), []byte(text), 0o600))
}

func (m *manager) eventually(is func() bool, otherwise string) {
	m.t.Helper()
	require.Eventually(m.t, is, patience, 20*time.Millisecond, otherwise)
}

// command is one that runs where systemd is.
func (m *manager) command(words ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{
		"--target", strconv.Itoa(m.pid), "--root", "--mount", "--pid", "--net", "--",
	}, words...)...)
}

func (m *manager) try(words ...string) error { return m.command(words...).Run() }

// run runs a command that must succeed, and returns what it says.
func (m *manager) run(words ...string) string {
	m.t.Helper()
	out, err := m.command(words...).CombinedOutput()
	require.NoError(m.t, err, "%q: %s", words, out)
	return strings.TrimSpace(string(out))
}

// property returns what systemd knows of a unit.
func (m *manager) property(unit, name string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "--value", "--property", name, unit)
}

// configure writes the configuration of a VM.
func (m *manager) configure(name string, section ...string) {
	m.t.Helper()
	m.write("etc/vmrunner/"+name+"/config.yaml", configuration(name, section...))
}

// configuration is that of a VM.
func configuration(name string, section ...string) string {
	text := "\"/Runner\":\n  vm:\n    name: " + name + "\n"
	for _, line := range section {
		text += "    " + line + "\n"
	}
	return text
}
