package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packaged makes a systemd in a root of the test's own, which has all of this machine and, above it, what is written
// there.
const packaged = `set -e
mount --make-rprivate /
mkdir root over
mount -t tmpfs tmpfs over # also where the root is an overlay itself
mkdir over/upper over/work
mount -t overlay overlay -o lowerdir=/,upperdir=$PWD/over/upper,workdir=$PWD/over/work root
mount -t proc proc root/proc
mount -t tmpfs tmpfs root/run
mount --rbind /sys root/sys
mount --rbind /dev root/dev
mount --bind packages root/mnt
mkdir -p root/run/systemd/system
for unit in sysinit basic shutdown network-online network remote-fs multi-user; do
	printf "[Unit]\nDefaultDependencies=no\n" >root/run/systemd/system/$unit.target
done
cp -r units/* root/run/systemd/system/
ip link set lo up
cd root
export container=test SYSTEMD_UNIT_PATH=/run/systemd/system:/etc/systemd/system:/usr/lib/systemd/system
exec chroot . /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
`

// The Debian package: lintian has nothing to say of it; it is installed, runs a VM, shows it on a page, is upgraded
// while the VM runs, which keeps running, and is removed: the guest shuts down, and its data stays. The other packages
// have the same files; that for RPM is installed and removed, too.
func TestPackage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pack := func(version string, targets ...string) string {
		arguments := append([]string{
			"-C", "../..", "--no-print-directory",
			"PACKAGES=" + folder, "PACKAGE_VERSION=" + version, "VERSION=" + version,
			"BIN=" + filepath.Join(folder, "bin"), "MAN=" + filepath.Join(folder, "man"),
			"PATHS=", // so that the build has in its cache what tests have
		}, targets...)
		make := exec.CommandContext(t.Context(), "make", arguments...)
		make.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1790000000")
		out, err := make.CombinedOutput()
		require.NoError(t, err, "%s", out)
		file := filepath.Join(folder, "vmop_"+version+"_amd64.deb")
		require.FileExists(t, file)
		return file
	}
	first := pack("1.0", "packages")
	said, err := exec.CommandContext(t.Context(), "lintian", "--fail-on", "error,warning", first).CombinedOutput()
	require.NoError(t, err, "%s", said)
	before, err := os.ReadFile(first)
	require.NoError(t, err)
	pack("1.0", "pack", "KINDS=deb")
	after, err := os.ReadFile(first)
	require.NoError(t, err)
	require.Equal(t, before, after, "the same input makes the same package")
	pack("1.1", "pack", "KINDS=deb")
	files := packed(t, "dpkg-deb --fsys-tarfile "+first+" | tar -t")
	require.Contains(t, files, "usr/bin/vmrunner")
	require.Equal(t, files, packed(t, "rpm -qlp "+filepath.Join(folder, redHat)))
	alpine := filepath.Join(folder, "vmop_1.0_x86_64.apk")
	require.Equal(t, files, packed(t, "tar --warning=no-unknown-keyword -tzf "+alpine))

	m := newManagerBy(t, packaged, func(m *manager) {
		require.NoError(t, os.Symlink(folder, m.path("packages")))
	})
	m.run("dpkg", "-i", "/mnt/vmop_1.0_amd64.deb")
	m.write("packages/web.yaml", configuration("web", tiny(t, "")...))
	m.run("cp", "/mnt/web.yaml", "/etc/opt/vmrunner/")
	m.run("systemctl", "enable", "--now", "vmrunner@web")
	require.Equal(t, "running", m.property("vmrunner@web", "SubState"))
	require.Contains(t, m.run("vmrunner", "--version"), "1.0")
	require.Contains(t, m.run("man", "--path", "vmrunner"), "/usr/share/man/man1/vmrunner.1.gz")
	qemu := m.run("pgrep", "-f", "qemu-system-x86_64.*web")

	m.run("systemctl", "start", "vmmanager-local")
	link := ""
	m.eventually(func() bool {
		said, _ := m.command("cat", "/run/vmrunner.log").CombinedOutput()
		_, after, found := strings.Cut(string(said), "http://127.0.0.1:8080/link/")
		link, _, _ = strings.Cut(after, "\n")
		return found && after != link
	}, "there is no link to log in")
	page := m.run("curl", "-sSL", "-c", "/run/cookies", "-b", "/run/cookies",
		"http://127.0.0.1:8080/link/"+strings.TrimSpace(link))
	require.Contains(t, page, `id="vm-web"`)

	m.run("dpkg", "-i", "/mnt/vmop_1.1_amd64.deb")
	require.Equal(t, "1.1", m.run("dpkg-query", "--show", "--showformat=${Version}", "vmop"))
	require.Equal(t, qemu, m.run("pgrep", "-f", "qemu-system-x86_64.*web"), "the VM lives")
	require.Equal(t, "running", m.property("vmrunner@web", "SubState"))
	runner := m.property("vmrunner@web", "MainPID") // as docs/packages.md has it
	m.run("systemctl", "kill", "--kill-who=main", "-s", "KILL", "vmrunner@web")
	m.eventually(func() bool {
		return m.property("vmrunner@web", "SubState") == "running" && m.property("vmrunner@web", "MainPID") != runner
	}, "there is no other runner")
	require.Equal(t, qemu, m.run("pgrep", "-f", "qemu-system-x86_64.*web"), "it has adopted the VM")
	m.run("systemctl", "restart", "vmrunner@web")
	require.Equal(t, "running", m.property("vmrunner@web", "SubState"))

	m.run("dpkg", "-r", "vmop")
	require.Error(t, m.try("pgrep", "-f", "qemu-system-x86_64.*web"))
	m.run("test", "-d", "/var/lib/vmrunner/web")
	m.run("test", "-f", "/etc/opt/vmrunner/web.yaml")

	rpm := func(args ...string) { m.run(append([]string{"rpm", "--dbpath", "/run/rpm", "--nodeps"}, args...)...) }
	rpm("--force-debian", "-i", "/mnt/"+redHat)
	rpm("-V", "vmop")
	require.Contains(t, m.run("vmrunner", "--version"), "1.0")
	m.run("systemctl", "start", "vmrunner@web")
	require.Equal(t, "running", m.property("vmrunner@web", "SubState"))
	rpm("--force-debian", "-e", "vmop")
	require.Error(t, m.try("pgrep", "-f", "qemu-system-x86_64.*web"))
	require.Error(t, m.try("test", "-e", "/usr/bin/vmrunner"))
	m.run("test", "-f", "/etc/opt/vmrunner/web.yaml")
}

// redHat is the file of the RPM package.
const redHat = "vmop-1.0-1.x86_64.rpm"

// packed returns the files of a package as a command lists them, sorted; the packages' formats differ in folders, and
// in the files that describe the package.
func packed(t *testing.T, list string) (files []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", list).Output()
	require.NoError(t, err)
	var all []string
	for name := range strings.FieldsSeq(string(out)) {
		name = strings.Trim(strings.TrimPrefix(name, "."), "/")
		if strings.HasPrefix(name, "usr/") || strings.HasPrefix(name, "etc/") {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	for i, name := range all {
		if i+1 == len(all) || !strings.HasPrefix(all[i+1], name+"/") {
			files = append(files, name)
		}
	}
	return files
}
