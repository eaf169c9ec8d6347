package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The unit, by a real systemd: what its comments promise.
func TestUnit(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	m.run("ip", "link", "add", "br0", "type", "bridge")
	m.run("ip", "link", "set", "br0", "up")
	m.run("systemd-analyze", "verify", "--man=no", "vmrunner@test.service") // it has no words for what is good
	t.Run("life", func(t *testing.T) { t.Parallel(); m.of(t).life() })
	t.Run("patience", func(t *testing.T) { t.Parallel(); m.of(t).patience() })
	t.Run("early stop", func(t *testing.T) { t.Parallel(); m.of(t).earlyStop() })
	t.Run("faults", func(t *testing.T) { t.Parallel(); m.of(t).faults() })
	t.Run("named", func(t *testing.T) { t.Parallel(); m.of(t).named() })
	t.Run("user", func(t *testing.T) { t.Parallel(); m.of(t).user() })
	t.Run("crash", func(t *testing.T) { t.Parallel(); m.of(t).crash() })
}

// life: started means that the guest runs; a guest with everything that needs
// rights of the host, a tap, a TPM, a disk; stopped means that it has shut down.
func (m *manager) life() {
	t := m.t
	section := slices.DeleteFunc(tiny(t, ""), func(line string) bool { return strings.HasPrefix(line, "network:") })
	m.configure("web", append(section, "useTpm: true", "drives: [{file: /var/lib/vmrunner/web/disk.img}]")...)
	m.write("lib/vmrunner/web/disk.img", strings.Repeat("\x00", 1<<20))
	m.run("systemctl", "start", "vmrunner@web")
	require.Equal(t, "running", m.property("vmrunner@web", "SubState"))
	require.Equal(t, "Booting", m.property("vmrunner@web", "StatusText"))
	require.Contains(t, m.run("vmrunner", "ps"), "web ", "whoever sits at a terminal of the host")
	require.Contains(t, m.run("vmrunner", "status", "web"), "Booting (VmStarted)")
	require.Contains(t, m.run("ip", "link", "show", "master", "br0"), "vm")
	require.Contains(t, m.run("stat", "--format", "%a %U %n", "/run/vmrunner/web", "/var/lib/vmrunner/web"),
		"700 root /run/vmrunner/web\n700 root /var/lib/vmrunner/web")
	require.ElementsMatch(t, []string{"vmrunner", "qemu-system-x86_64", "swtpm"}, m.programs("web"))

	m.run("systemctl", "reload", "vmrunner@web")
	m.eventually(func() bool { return m.property("vmrunner@web", "SubState") == "running" }, "it reloads for ever")
	require.ElementsMatch(t, []string{"vmrunner", "qemu-system-x86_64", "swtpm"}, m.programs("web"))

	m.run("systemctl", "stop", "vmrunner@web")
	require.Equal(t, "inactive", m.property("vmrunner@web", "ActiveState"), "not failed")
	require.Empty(t, m.programs("web"))
	require.Empty(t, m.run("find", "/run/vmrunner/web", "-mindepth", "1"))
}

// patience: a guest that doesn't obey gets all of its powerdownTimeout, however
// short the manager's own is. That is long enough for the runner's first word on a busy computer.
func (m *manager) patience() {
	m.dropIn("slow", "[Service]\nTimeoutStopSec=25s\n")
	m.configure("slow", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 30")
	m.run("systemctl", "start", "vmrunner@slow")
	m.run("systemctl", "stop", "vmrunner@slow")
	require.Equal(m.t, "inactive", m.property("vmrunner@slow", "ActiveState"), "not failed for a time-out")
}

// earlyStop: that the guest has never run is no failure.
func (m *manager) earlyStop() {
	m.run("mkfifo", "/run/kernel") // it is never written
	m.configure("early", "accelerator: tcg", "firmware: bios", "network: []", "kernel: {image: /run/kernel}")
	m.run("systemctl", "start", "--no-block", "vmrunner@early")
	m.eventually(func() bool { return m.property("vmrunner@early", "StatusText") == "Starting" }, "it doesn't begin")
	require.Equal(m.t, "activating", m.property("vmrunner@early", "ActiveState"))
	m.run("systemctl", "stop", "vmrunner@early")
	require.Equal(m.t, "inactive", m.property("vmrunner@early", "ActiveState"), "not failed")
}

// faults: what doesn't get better isn't tried again, and the journal has the
// reason.
func (m *manager) faults() {
	m.configure("wrong", "maximumRm: 1 GiB")
	for _, name := range []string{"wrong", "missing"} {
		require.Error(m.t, m.try("systemctl", "start", "vmrunner@"+name))
		require.Equal(m.t, "exit-code", m.property("vmrunner@"+name, "Result"))
		require.Equal(m.t, "2", m.property("vmrunner@"+name, "ExecMainStatus"), name)
		require.Equal(m.t, "0", m.property("vmrunner@"+name, "NRestarts"))
	}
}

// named: the verbs start, restart and stop use the service.
func (m *manager) named() {
	m.write("etc/vmrunner/mine.yaml",
		"/Runner: {vm: {name: mine, accelerator: tcg, firmware: bios, network: [], powerdownTimeout: 0}}")
	m.run("vmrunner", "start", "mine")
	require.Equal(m.t, "active", m.property("vmrunner@mine", "ActiveState"))
	require.Regexp(m.t, `(?m)^mine +(Booting|Running) `, m.run("vmrunner", "list"))
	first := m.property("vmrunner@mine", "MainPID")
	m.run("vmrunner", "restart", "mine")
	require.Equal(m.t, "active", m.property("vmrunner@mine", "ActiveState"))
	require.NotEqual(m.t, first, m.property("vmrunner@mine", "MainPID"))
	m.run("vmrunner", "delete", "mine", "--force")
	m.eventually(func() bool { return m.property("vmrunner@mine", "ActiveState") == "inactive" }, "it is not stopped")
	require.Error(m.t, m.try("vmrunner", "start", "mine"))
}

// user: as docs/systemd.md says, for a VM without a network of the host.
func (m *manager) user() {
	m.dropIn("joe", "[Service]\nUser=nobody\nCapabilityBoundingSet=\n")
	m.configure("joe", "accelerator: tcg", "firmware: bios", "network: [{type: user}]", "powerdownTimeout: 0")
	m.run("chmod", "-R", "a+rX", "/etc/opt/vmrunner")
	m.run("systemctl", "start", "vmrunner@joe")
	require.Equal(m.t, "nobody", m.run("stat", "--format", "%U", "/run/vmrunner/joe/control.sock"))
	m.run("systemctl", "stop", "vmrunner@joe")
	require.Equal(m.t, "inactive", m.property("vmrunner@joe", "ActiveState"), "not failed")
}

// crash: QEMU lives on when its runner is killed.
func (m *manager) crash() {
	m.configure("hit", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0")
	m.run("systemctl", "start", "vmrunner@hit")
	m.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "vmrunner@hit")
	m.eventually(func() bool {
		return m.property("vmrunner@hit", "NRestarts") == "1" && m.property("vmrunner@hit", "SubState") == "running"
	}, "systemd doesn't start another")
	require.Contains(m.t, m.run("vmrunner", "status", "hit"), "RunnerRestarted")
	m.run("systemctl", "stop", "vmrunner@hit")
	require.Equal(m.t, "inactive", m.property("vmrunner@hit", "ActiveState"), "not failed")
	require.Empty(m.t, m.programs("hit"))
}

// of returns the manager for a part of the test.
func (m *manager) of(t *testing.T) *manager {
	part := *m
	part.t = t
	return &part
}

// dropIn changes the unit of a VM.
func (m *manager) dropIn(name, text string) {
	m.t.Helper()
	m.run("mkdir", "-p", "/run/systemd/system/vmrunner@"+name+".service.d")
	m.write("drop-in-"+name, text)
	m.run("cp", m.path("drop-in-"+name), "/run/systemd/system/vmrunner@"+name+".service.d/test.conf")
	m.run("systemctl", "daemon-reload")
}

// programs returns the names of the processes in the unit's control group.
func (m *manager) programs(name string) (names []string) {
	m.t.Helper()
	for _, group := range m.groups {
		found, _ := filepath.Glob(filepath.Join(group, "system.slice", "*", "vmrunner@"+name+".service",
			"cgroup.procs"))
		for _, file := range found {
			pids, _ := os.ReadFile(file) // it goes with the last process
			for _, pid := range strings.Fields(string(pids)) {
				text, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
				program, _, _ := strings.Cut(string(text), "\x00")
				names = append(names, filepath.Base(program))
			}
		}
		if len(names) > 0 { // the older control groups are several trees
			return names
		}
	}
	return nil
}
