package diskimage_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
	"vmop/test/folder"
)

// device returns a block device filled with other data.
func device(t *testing.T, size int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte{0xee}, size), 0o600))
	return folder.Device(t, file)
}

func into(name string, source diskimage.Source) diskimage.Import {
	return diskimage.Import{Source: source, Target: diskimage.Target{Path: name}, Limits: quick(), Reach: here()}
}

// An import overwrites all earlier data on the device, including holes and the space after the image.
func TestBlockDevices(t *testing.T) {
	t.Parallel()
	data := disk()
	for name, image := range map[string][]byte{
		"raw": data, "gzip": packed(t, "gzip", data), "qcow2": image(t, data, "-O", "qcow2"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := device(t, 12*mib)
			result, err := into(dev, diskimage.HTTP{URL: served(t, image)}).Run(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, len(data), result.VirtualSize)
			got, err := os.ReadFile(dev)
			require.NoError(t, err)
			require.True(t, bytes.Equal(append(bytes.Clone(data), make([]byte, 12*mib-len(data))...), got))
		})
	}
}

// A failed import erases the beginning of the device.
func TestBlockDevicesAfterAFailure(t *testing.T) {
	t.Parallel()
	data := disk()
	qcow2 := image(t, data, "-O", "qcow2")
	for name, c := range map[string]struct {
		image  []byte
		size   int
		change func(*diskimage.Import)
		reason diskimage.Reason
	}{
		"checksum": {
			data, 12 * mib, func(i *diskimage.Import) { i.Checksum = sum(t, nil) }, diskimage.ChecksumMismatch,
		},
		"too large": {data, 8 * mib, func(*diskimage.Import) {}, diskimage.ImageTooLarge},
		"corrupt":   {qcow2[:len(qcow2)/2], 12 * mib, func(*diskimage.Import) {}, diskimage.ImageCorrupt},
		"smaller than wanted": {
			data, 12 * mib, func(i *diskimage.Import) { i.Target.Size = 13 * mib }, diskimage.ImageTooLarge,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dev := device(t, c.size)
			i := into(dev, diskimage.Reader{R: bytes.NewReader(c.image)})
			c.change(&i)
			_, err := i.Run(t.Context())
			require.Equal(t, c.reason, diskimage.ReasonOf(err), "%v", err)
			got, err := os.ReadFile(dev)
			require.NoError(t, err)
			if name == "smaller than wanted" { // the import had not started
				require.EqualValues(t, 0xee, got[0])
				return
			}
			require.True(t, bytes.Equal(make([]byte, mib), got[:mib]))
		})
	}
}

// Imports work on file systems that require writes through the page cache, or require it for partial blocks.
func TestTargetsThatWantThePageCache(t *testing.T) {
	t.Parallel()
	data, dir := disk(), t.TempDir()
	out, err := exec.CommandContext(t.Context(), "mount", "-t", "ramfs", "ramfs", dir).CombinedOutput()
	require.NoError(t, err, "mount, as root: %s", out)
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	_, got := imported(t, into(filepath.Join(dir, "disk.img"), diskimage.HTTP{URL: served(t, data)}))
	require.True(t, bytes.Equal(data, got))

	file := filepath.Join(t.TempDir(), "disk.img")
	chunk := bytes.Repeat([]byte("0123456789abcdef"), mib/16)
	require.NoError(t, diskimage.WriteChunk(file, chunk, 100))
	got, err = os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(make([]byte, 100), chunk...), got))
}

// A device can also be the source of a clone.
func TestADeviceIsCopied(t *testing.T) {
	t.Parallel()
	from, to := device(t, 3*mib), device(t, 4*mib)
	i := into(to, diskimage.File{Path: from})
	i.Format = diskimage.Raw
	_, err := i.Run(t.Context())
	require.NoError(t, err)
	got, err := os.ReadFile(to)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(bytes.Repeat([]byte{0xee}, 3*mib), make([]byte, mib)...), got))
}

func TestADeviceThatIsInUse(t *testing.T) {
	t.Parallel()
	dev := device(t, mib)
	busy, err := os.OpenFile(dev, os.O_RDWR|os.O_EXCL, 0)
	require.NoError(t, err)
	defer busy.Close()
	_, err = into(dev, diskimage.Reader{R: strings.NewReader("x")}).Run(t.Context())
	require.Equal(t, diskimage.TargetBusy, diskimage.ReasonOf(err), "%v", err)
}

// An import to a full volume (a 16 MiB file system) removes its partial file and reports the reason.
func TestAFullVolume(t *testing.T) {
	t.Parallel()
	dev, dir := device(t, 16*mib), t.TempDir()
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", dev}, {"mount", dev, dir}} {
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", args, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	data := bytes.Repeat([]byte("0123456789abcdef"), 20*mib/16)
	zipped := packed(t, "gzip", data)
	for name, image := range map[string][]byte{
		"raw": data, "gzip": zipped, "qcow2": image(t, data, "-O", "qcow2"),
		"qcow2, compressed": image(t, data, "-O", "qcow2", "-c"),
	} {
		i := into(filepath.Join(dir, "disk.img"), diskimage.HTTP{URL: served(t, image)})
		_, err := i.Run(t.Context())
		require.Equal(t, diskimage.NoSpace, diskimage.ReasonOf(err), "%s: %v", name, err)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, "lost+found")
	}
}
