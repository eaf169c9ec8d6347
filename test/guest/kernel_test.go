package guest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

func TestFindKernelPrefersTheNewestCloudKernel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		installed []string
		want      string
	}{
		{"the only one", []string{"6.1.0-9-amd64"}, "6.1.0-9-amd64"},
		{"by number, not by letter", []string{"6.1.0-9-amd64", "6.1.0-10-amd64", "6.1.0-8-amd64"}, "6.1.0-10-amd64"},
		{"cloud before newer", []string{"6.12.0-1-amd64", "6.1.0-9-cloud-amd64"}, "6.1.0-9-cloud-amd64"},
		{"Ubuntu's names", []string{"6.8.0-31-generic", "6.8.0-100-generic"}, "6.8.0-100-generic"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			boot, modules := t.TempDir(), t.TempDir()
			for _, release := range tt.installed {
				write(t, filepath.Join(boot, "vmlinuz-"+release), nil)
				write(t, filepath.Join(modules, release, "modules.dep"), nil)
			}
			found, err := findKernel("", boot, t.TempDir(), modules)
			require.NoError(t, err)
			require.Equal(t, kernel{Path: boot + "/vmlinuz-" + tt.want, Modules: modules + "/" + tt.want}, found)
		})
	}
}

func TestFindKernelExplainsWhatIsMissing(t *testing.T) {
	t.Parallel()
	boot, modules := t.TempDir(), t.TempDir()
	_, err := findKernel("", boot, t.TempDir(), modules)
	require.ErrorContains(t, err, "install the package linux-image-cloud-amd64")

	write(t, filepath.Join(boot, "vmlinuz-6.1.0"), nil)
	_, err = findKernel("", boot, t.TempDir(), modules)
	require.ErrorContains(t, err, "6.1.0/modules.dep: no such file")

	_, err = findKernel(filepath.Join(boot, "vmlinuz-mine"), boot, t.TempDir(), modules)
	require.ErrorContains(t, err, "vmlinuz-mine: no such file")
}

// Each module comes once, after its dependencies, unpacked and under its plain name.
func TestModulesInLoadOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "modules.dep"), []byte(
		"kernel/virtio/virtio_ring.ko.zst: kernel/virtio/virtio.ko\n"+
			"kernel/virtio/virtio.ko:\n"+
			"kernel/net/virtio-net.ko.xz: kernel/virtio/virtio_ring.ko.zst kernel/virtio/virtio.ko\n"+
			"kernel/virtio/virtio_pci.ko: kernel/virtio/virtio_ring.ko.zst kernel/virtio/virtio.ko\n"+
			"kernel/odd.ko.lz4:\n"))
	write(t, filepath.Join(dir, "modules.builtin"), []byte("kernel/fs/vfat.ko\n"))
	write(t, filepath.Join(dir, "kernel/virtio/virtio.ko"), []byte("virtio"))
	write(t, filepath.Join(dir, "kernel/virtio/virtio_pci.ko"), []byte("pci"))
	write(t, filepath.Join(dir, "kernel/virtio/virtio_ring.ko.zst"), byZstd(t, "ring"))
	write(t, filepath.Join(dir, "kernel/net/virtio-net.ko.xz"), byXZ(t, "net"))
	write(t, filepath.Join(dir, "kernel/odd.ko.lz4"), []byte("?"))
	k := kernel{Path: "vmlinuz-1", Modules: dir}

	modules, err := k.modulesWithDependencies([]string{"virtio_net", "virtio_pci", "vfat"}, []string{"floppy"})
	require.NoError(t, err)
	require.Equal(t, []module{
		{"virtio.ko", []byte("virtio")},
		{"virtio_ring.ko", []byte("ring")},
		{"virtio_net.ko", []byte("net")},
		{"virtio_pci.ko", []byte("pci")},
	}, modules)

	_, err = k.modulesWithDependencies([]string{"ext4"}, nil)
	require.EqualError(t, err, "kernel vmlinuz-1 has no ext4")
	_, err = k.modulesWithDependencies(nil, []string{"odd"})
	require.ErrorContains(t, err, "odd.ko.lz4: its compression is unknown here")
}

// Busybox, which reads the format independently of the kernel, sees the same files.
func TestArchiveIsReadByBusybox(t *testing.T) {
	t.Parallel()
	var a archive
	a.addFile("lib/one", 0o644, []byte("1"))
	a.addDir("lib")
	a.addFile("init", 0o755, []byte("#!/bin/sh\n"))

	list := exec.CommandContext(t.Context(), "busybox", "cpio", "-tv")
	list.Stdin = bytes.NewReader(a.archiveBytes())
	out, err := list.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^-rwxr-xr-x.* init\ndrwxr-xr-x.* lib\n-rw-r--r--.* 1 .*lib/one\n`, string(out))
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

func byXZ(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	require.NoError(t, err)
	_, err = w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.Bytes()
}

func byZstd(t *testing.T, text string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll([]byte(text), nil)
}
