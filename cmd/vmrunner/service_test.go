package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/systemd"
	"vmop/test/tier"
)

// manager is a systemd with the test's own /run, /etc/opt, /var/lib, /var/cache and /usr/local/bin. All other folders
// are this machine's.
type manager struct {
	*systemd.Manager

	t *testing.T
}

// birth is the script that creates it, in a folder with bin, etc, lib and cache. It unmounts the mounts of other tests,
// because systemd can't start a service while one of them disappears.
const birth = `set -e
mount --make-rprivate /
awk '$2 ~ "^/tmp/" { print $2 }' /proc/self/mounts | sort -r | xargs --no-run-if-empty umount --lazy || true
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount --bind lib /var/lib
mount --bind cache /var/cache
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

// newManager starts a systemd with vmrunner and its unit.
func newManager(t *testing.T) *manager {
	t.Helper()
	return &manager{systemd.New(t, birth, func(m *systemd.Manager) {
		for _, dir := range []string{"etc/vmrunner", "lib", "cache"} {
			require.NoError(t, os.MkdirAll(m.Path(dir), 0o755))
		}
		require.NoError(t, os.Rename(build(t), m.Path("bin")))
		unit, err := os.ReadFile("systemd/vmrunner@.service")
		require.NoError(t, err)
		m.Write("units/vmrunner@.service", string(unit))
		network, err := os.ReadFile("systemd/network.conf")
		require.NoError(t, err)
		m.Write("units/vmrunner@web.service.d/network.conf", string(network))
	}), t}
}

// of returns the manager for a subtest.
func (m *manager) of(t *testing.T) *manager { return &manager{m.Of(t), t} }

// configure writes the configuration of a VM.
func (m *manager) configure(name string, section ...string) {
	m.t.Helper()
	text := "\"/Runner\":\n  vm:\n    name: " + name + "\n"
	for _, line := range section {
		text += "    " + line + "\n"
	}
	m.Write("etc/vmrunner/"+name+"/config.yaml", text)
}

// The unit works in a real systemd as its comments describe.
func TestUnit(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	m := newManager(t)
	m.Run("ip", "link", "add", "br0", "type", "bridge")
	m.Run("ip", "link", "set", "br0", "up")
	m.Run("systemd-analyze", "verify", "--man=no", "vmrunner@test.service") // it prints nothing for a valid unit
	t.Run("life", func(t *testing.T) { t.Parallel(); m.of(t).life() })
	t.Run("patience", func(t *testing.T) { t.Parallel(); m.of(t).patience() })
	t.Run("early stop", func(t *testing.T) { t.Parallel(); m.of(t).earlyStop() })
	t.Run("faults", func(t *testing.T) { t.Parallel(); m.of(t).faults() })
	t.Run("named", func(t *testing.T) { t.Parallel(); m.of(t).named() })
	t.Run("root", func(t *testing.T) { t.Parallel(); m.of(t).root() })
	t.Run("crash", func(t *testing.T) { t.Parallel(); m.of(t).crash() })
	t.Run("hung", func(t *testing.T) { t.Parallel(); m.of(t).hung() })
}

// life tests a guest with everything that needs privileges on the host: a tap, a TPM, a disk. "Started" means that the
// guest runs, and "stopped" that it has shut down.
func (m *manager) life() {
	t := m.t
	m.configure("web", "accelerator: tcg", "firmware: bios", "maximumRam: 64 MiB", "powerdownTimeout: 60",
		"useTpm: true", "drives: [{file: /var/lib/vmrunner/web/disk.img}]")
	m.Write("lib/vmrunner/web/disk.img", string(guest.Obedient(false)))
	m.Run("systemctl", "start", "vmrunner@web")
	require.Equal(t, "running", m.Property("vmrunner@web", "SubState"))
	require.Equal(t, "Booting", m.Property("vmrunner@web", "StatusText"))
	require.Contains(t, m.Run("vmrunner", "ps"), "web ", "whoever sits at a terminal of the host")
	require.Contains(t, m.Run("vmrunner", "status", "web"), "Booting (VmStarted)")
	require.Contains(t, m.Run("ip", "link", "show", "master", "br0"), "vm")
	require.Contains(t, m.Run("vmrunner", "status", "web", "-o", "yaml"), "ownRoot: true")
	require.Contains(t, m.Run("stat", "-L", "--format", "%a %U %n", "/run/vmrunner/web", "/var/lib/vmrunner/web"),
		"700 vm-web /run/vmrunner/web\n700 vm-web /var/lib/vmrunner/web")
	require.ElementsMatch(t, []string{"vmrunner", "qemu-system-x86_64", "swtpm"}, m.Programs("vmrunner@web"))

	m.Run("systemctl", "reload", "vmrunner@web")
	m.Eventually(func() bool { return m.Property("vmrunner@web", "SubState") == "running" }, "it reloads for ever")
	require.ElementsMatch(t, []string{"vmrunner", "qemu-system-x86_64", "swtpm"}, m.Programs("vmrunner@web"))

	m.Run("systemctl", "stop", "vmrunner@web")
	require.Equal(t, "inactive", m.Property("vmrunner@web", "ActiveState"), "not failed")
	require.Empty(t, m.Programs("vmrunner@web"))
	require.Empty(t, m.Run("find", "/run/vmrunner/web", "-mindepth", "1"))
}

// patience tests that a guest that doesn't shut down has its complete powerdownTimeout, even if the manager's time-out
// is shorter. The latter is long enough for the runner's first message on a busy computer.
func (m *manager) patience() {
	m.dropIn("slow", "[Service]\nTimeoutStopSec=25s\n")
	m.configure("slow", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 30")
	m.Run("systemctl", "start", "vmrunner@slow")
	m.Run("systemctl", "stop", "vmrunner@slow")
	require.Equal(m.t, "inactive", m.Property("vmrunner@slow", "ActiveState"), "not failed for a time-out")
}

// earlyStop tests that stopping before the guest has run is not a failure.
func (m *manager) earlyStop() {
	m.Run("mkfifo", "/run/kernel") // nothing is written to it
	m.configure("early", "accelerator: tcg", "firmware: bios", "network: []", "kernel: {image: /run/kernel}")
	m.Run("systemctl", "start", "--no-block", "vmrunner@early")
	m.Eventually(func() bool { return m.Property("vmrunner@early", "StatusText") == "Starting" }, "it doesn't begin")
	require.Equal(m.t, "activating", m.Property("vmrunner@early", "ActiveState"))
	m.Run("systemctl", "stop", "vmrunner@early")
	require.Equal(m.t, "inactive", m.Property("vmrunner@early", "ActiveState"), "not failed")
}

// faults tests that permanent errors are not retried, and that the journal contains the reason.
func (m *manager) faults() {
	m.configure("wrong", "maximumRm: 1 GiB")
	for _, name := range []string{"wrong", "missing"} {
		require.Error(m.t, m.Try("systemctl", "start", "vmrunner@"+name))
		require.Equal(m.t, "exit-code", m.Property("vmrunner@"+name, "Result"))
		require.Equal(m.t, "2", m.Property("vmrunner@"+name, "ExecMainStatus"), name)
		require.Equal(m.t, "0", m.Property("vmrunner@"+name, "NRestarts"))
	}
}

// named tests that the verbs start, restart and stop use the service.
func (m *manager) named() {
	m.Write("etc/vmrunner/mine.yaml",
		"/Runner: {vm: {name: mine, accelerator: tcg, firmware: bios, network: [], powerdownTimeout: 0}}")
	m.Run("vmrunner", "start", "mine")
	require.Equal(m.t, "active", m.Property("vmrunner@mine", "ActiveState"))
	require.Regexp(m.t, `(?m)^mine +(Booting|Running) `, m.Run("vmrunner", "list"))
	first := m.Property("vmrunner@mine", "MainPID")
	m.Run("vmrunner", "restart", "mine")
	require.Equal(m.t, "active", m.Property("vmrunner@mine", "ActiveState"))
	require.NotEqual(m.t, first, m.Property("vmrunner@mine", "MainPID"))
	m.Run("vmrunner", "delete", "mine", "--force")
	m.Eventually(func() bool { return m.Property("vmrunner@mine", "ActiveState") == "inactive" }, "it is not stopped")
	require.Error(m.t, m.Try("vmrunner", "start", "mine"))
}

// root tests the setup of docs/tasks/systemd.md for a VM with files that other users may not read.
func (m *manager) root() {
	m.dropIn("old", "[Service]\nDynamicUser=no\nUser=root\nCapabilityBoundingSet=CAP_SYS_ADMIN CAP_DAC_OVERRIDE\n")
	m.configure("old", "accelerator: tcg", "firmware: bios", "network: [{type: user}]", "powerdownTimeout: 0")
	m.Run("systemctl", "start", "vmrunner@old")
	require.Equal(m.t, "root", m.Run("stat", "--format", "%U", "/run/vmrunner/old/control.sock"))
	require.Contains(m.t, m.Run("vmrunner", "status", "old", "-o", "yaml"), "ownRoot: true")
	m.Run("systemctl", "stop", "vmrunner@old")
	require.Equal(m.t, "inactive", m.Property("vmrunner@old", "ActiveState"), "not failed")
}

// crash tests that QEMU survives the death of its runner.
func (m *manager) crash() {
	m.configure("hit", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0")
	m.Run("systemctl", "start", "vmrunner@hit")
	m.Run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "vmrunner@hit")
	m.Eventually(func() bool {
		return m.Property("vmrunner@hit", "NRestarts") == "1" && m.Property("vmrunner@hit", "SubState") == "running"
	}, "systemd doesn't start another")
	require.Contains(m.t, m.Run("vmrunner", "status", "hit"), "RunnerRestarted")
	m.Run("systemctl", "stop", "vmrunner@hit")
	require.Equal(m.t, "inactive", m.Property("vmrunner@hit", "ActiveState"), "not failed")
	require.Empty(m.t, m.Programs("vmrunner@hit"))
}

// hung tests that root can end a VM with a hanging runner, and that systemd doesn't restart it. The VM can be ended
// even if systemd doesn't answer.
func (m *manager) hung() {
	m.configure("stuck", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0")
	m.Run("systemctl", "start", "vmrunner@stuck")
	m.Run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", "vmrunner@stuck")
	m.Run("vmrunner", "stop", "stuck", "--force", "--wait")
	require.Empty(m.t, m.Programs("vmrunner@stuck"))
	require.Contains(m.t, []string{"inactive", "failed"}, m.Property("vmrunner@stuck", "ActiveState"))
	require.Equal(m.t, "0", m.Property("vmrunner@stuck", "NRestarts"))

	m.Run("systemctl", "start", "vmrunner@stuck")
	m.Run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", "vmrunner@stuck")
	out, err := m.Command("sh", "-c", "p=$(command -v vmrunner); PATH=/nowhere $p stop stuck --force --wait").CombinedOutput()
	require.Error(m.t, err)
	require.Contains(m.t, string(out), "the VM has ended, but systemd may start it again")
	m.Eventually(func() bool { return m.Property("vmrunner@stuck", "NRestarts") == "1" }, "it has not been ended")
	m.Run("systemctl", "stop", "vmrunner@stuck")
}

// dropIn changes the unit of a VM.
func (m *manager) dropIn(name, text string) {
	m.t.Helper()
	m.Run("mkdir", "-p", "/run/systemd/system/vmrunner@"+name+".service.d")
	m.Write("drop-in-"+name, text)
	m.Run("cp", m.Path("drop-in-"+name), "/run/systemd/system/vmrunner@"+name+".service.d/test.conf")
	m.Run("systemctl", "daemon-reload")
}
