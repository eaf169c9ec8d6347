// Package packages_test installs the packages that make packages builds.
package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/program"
	"vmop/test/systemd"
)

// packaged starts a systemd in the test's own root. It shows all files of this machine and, in an overlay, the files
// that the test writes.
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
rm root/var/lib/man-db/auto-update # else dpkg makes an index of all of this machine's man pages
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

// Lintian accepts the Debian package. The package is installed, runs a VM and shows it on a page. An upgrade keeps the
// VM running. Removal shuts the guest down and keeps its data. The other packages contain the same files, and the RPM
// package can be installed and removed.
func TestPackage(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../cmd/*")
	require.NoError(t, err)
	require.NoError(t, program.LookAt(t.Context(), sources...))
	for _, read := range []string{
		".", "../../Makefile", "../third_party/NOTICES.txt", "../../tools/go.sum",
		"../../cmd/vmrunner/systemd", "../../cmd/vmmanager/systemd", "../../cmd/kubectl-vmop/kubectl_complete-vmop",
	} {
		require.NoError(t, program.LookInto(read))
	}
	folder := t.TempDir()
	pack := func(version string, targets ...string) string {
		arguments := append([]string{
			"-C", "../..", "--no-print-directory",
			"PACKAGES=" + folder, "PACKAGE_VERSION=" + version, "VERSION=" + version,
			"BIN=" + filepath.Join(folder, "bin"), "MAN=" + filepath.Join(folder, "man"),
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

	m := systemd.New(t, packaged, func(m *systemd.Manager) {
		require.NoError(t, os.Symlink(folder, m.Path("packages")))
	})
	m.Run("dpkg", "-i", "/mnt/vmop_1.0_amd64.deb")
	image := guest.Tiny(t)
	guest.TakePlace(t)
	m.Write("packages/web.yaml", `/Runner: {vm: {name: web, accelerator: tcg, firmware: bios, network: [], maximumRam: 256 MiB,
  powerdownTimeout: 60, kernel: {image: /srv/vmlinuz, initrd: /srv/initrd.gz,
  commandLine: `+guest.CommandLine+`}}}
`)
	m.Run("cp", "/mnt/web.yaml", "/etc/opt/vmrunner/")
	m.Run("install", "-m", "644", image.Kernel, "/srv/vmlinuz") // where the VM's user may read it
	m.Run("install", "-m", "644", image.Initrd, "/srv/initrd.gz")
	m.Run("systemctl", "enable", "--now", "vmrunner@web")
	require.Equal(t, "running", m.Property("vmrunner@web", "SubState"))
	require.Contains(t, m.Run("vmrunner", "--version"), "1.0")
	require.Contains(t, m.Run("man", "--path", "vmrunner"), "/usr/share/man/man1/vmrunner.1.gz")
	qemu := m.Run("pgrep", "-f", "qemu-system-x86_64.*web")

	m.Run("systemctl", "start", "vmmanager-local")
	link := ""
	m.Eventually(func() bool {
		said, err := m.Command("vmmanager", "local", "link").CombinedOutput()
		link = strings.TrimSpace(string(said))
		return err == nil
	}, "there is no link to log in")
	require.NotContains(t, m.Run("cat", "/run/vmrunner.log"), "/link/", "the journal")
	page := m.Run("curl", "-sSL", "-c", "/run/cookies", "-b", "/run/cookies", link)
	require.Contains(t, page, `id="vm-web"`)

	m.Run("dpkg", "-i", "/mnt/vmop_1.1_amd64.deb")
	require.Equal(t, "1.1", m.Run("dpkg-query", "--show", "--showformat=${Version}", "vmop"))
	require.Equal(t, qemu, m.Run("pgrep", "-f", "qemu-system-x86_64.*web"), "the VM lives")
	require.Equal(t, "running", m.Property("vmrunner@web", "SubState"))
	runner := m.Property("vmrunner@web", "MainPID") // as in docs/tasks/packages.md
	m.Run("systemctl", "kill", "--kill-who=main", "-s", "KILL", "vmrunner@web")
	m.Eventually(func() bool {
		return m.Property("vmrunner@web", "SubState") == "running" && m.Property("vmrunner@web", "MainPID") != runner
	}, "there is no other runner")
	require.Equal(t, qemu, m.Run("pgrep", "-f", "qemu-system-x86_64.*web"), "it has adopted the VM")
	m.Run("systemctl", "restart", "vmrunner@web")
	require.Equal(t, "running", m.Property("vmrunner@web", "SubState"))

	m.Run("dpkg", "-r", "vmop")
	require.Error(t, m.Try("pgrep", "-f", "qemu-system-x86_64.*web"))
	m.Run("test", "-d", "/var/lib/vmrunner/web")
	m.Run("test", "-f", "/etc/opt/vmrunner/web.yaml")

	rpm := func(args ...string) { m.Run(append([]string{"rpm", "--dbpath", "/run/rpm", "--nodeps"}, args...)...) }
	rpm("--force-debian", "-i", "/mnt/"+redHat)
	rpm("-V", "vmop")
	require.Contains(t, m.Run("vmrunner", "--version"), "1.0")
	m.Run("systemctl", "start", "vmrunner@web")
	require.Equal(t, "running", m.Property("vmrunner@web", "SubState"))
	rpm("--force-debian", "-e", "vmop")
	require.Error(t, m.Try("pgrep", "-f", "qemu-system-x86_64.*web"))
	require.Error(t, m.Try("test", "-e", "/usr/bin/vmrunner"))
	m.Run("test", "-f", "/etc/opt/vmrunner/web.yaml")
}

// redHat is the file of the RPM package.
const redHat = "vmop-1.0-1.x86_64.rpm"

// packed returns the files of a package as a command lists them, sorted, without folders and package metadata, in which
// the formats differ.
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
