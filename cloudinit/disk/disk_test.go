package disk

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/cloudinit"
)

// tool returns the path of a program that a test needs.
func tool(t testing.TB, name, debianPackage string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Fatalf("%s is missing: apt-get install %s", name, debianPackage)
	return ""
}

// bytesOf returns pseudo-random content.
func bytesOf(size int, seed uint64) []byte {
	content := make([]byte, size)
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	_, _ = source.Read(content)
	return content
}

func writeSeed(t testing.TB, s cloudinit.Seed) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seed.img")
	require.NoError(t, Write(path, s))
	return path
}

// requireSound runs fsck.vfat and requires that it reports no problem.
func requireSound(t testing.TB, path, about string) {
	t.Helper()
	out, err := exec.Command(tool(t, "fsck.vfat", "dosfstools"), "-n", path).CombinedOutput()
	require.NoError(t, err, "fsck.vfat -n, %s: %s", about, out)
	require.Equal(t, 1, strings.Count(strings.TrimSpace(string(out)), "\n"), "fsck.vfat has a remark, %s: %s", about,
		out)
}

// requireReadable reads the files back with mtools.
func requireReadable(t testing.TB, path string, s cloudinit.Seed) {
	t.Helper()
	for _, f := range s.Files() {
		got, err := exec.Command(tool(t, "mtype", "mtools"), "-i", path, "::"+f.Name).Output()
		require.NoError(t, err, "mtype ::%s", f.Name)
		require.True(t, bytes.Equal(f.Content, got), "mtype ::%s: %d bytes differ from the %d written", f.Name,
			len(got), len(f.Content))
	}
}

func fourFiles() cloudinit.Seed {
	return cloudinit.Seed{
		MetaData:      []byte("instance-id: i-1\nlocal-hostname: vm\n"),
		UserData:      []byte("#cloud-config\npackages: [htop]\n"),
		NetworkConfig: []byte("version: 2\n"),
		VendorData:    []byte("#cloud-config\n{}\n"),
	}
}

func TestMtoolsReadWhatWasWritten(t *testing.T) {
	t.Parallel()
	whole := fourFiles()
	for name, seed := range map[string]cloudinit.Seed{
		"all four": whole,
		"two":      {MetaData: whole.MetaData, UserData: whole.UserData},
		"no vendor-data": {
			MetaData: whole.MetaData, UserData: whole.UserData,
			NetworkConfig: whole.NetworkConfig,
		},
		"no network-config": {MetaData: whole.MetaData, UserData: whole.UserData, VendorData: whole.VendorData},
		"nothing":           {},
		"empty, not nil":    {MetaData: []byte{}, UserData: []byte{}, NetworkConfig: []byte{}, VendorData: []byte{}},
		"any bytes":         {UserData: bytesOf(70_000, 1), VendorData: bytesOf(513, 2)},
		"large": {
			UserData: bytesOf(5<<20+1, 3), NetworkConfig: bytesOf(1025, 4),
			VendorData: bytesOf(2<<20, 5),
		},
		"user-data of 16 MB":   {UserData: bytesOf(16<<20, 6)},
		"vendor-data of 33 MB": {VendorData: bytesOf(33<<20, 7)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeSeed(t, seed)
			requireSound(t, path, name)
			requireReadable(t, path, seed)

			listing, err := exec.Command(tool(t, "mdir", "mtools"), "-b", "-i", path, "::").Output()
			require.NoError(t, err)
			var want []string
			for _, f := range seed.Files() {
				want = append(want, "::/"+f.Name)
			}
			require.Equal(t, want, strings.Fields(string(listing)))

			label, err := exec.Command(tool(t, "mlabel", "mtools"), "-s", "-i", path, "::").Output()
			require.NoError(t, err)
			require.Contains(t, string(label), "CIDATA")
		})
	}
}

// TestEverySizeIsSound covers the boundaries: sectors and clusters, the floppy's capacity (2847 clusters, including one
// for the meta-data), the smallest FAT16, tables that grow by a sector, and the cluster size above 32 MiB.
func TestEverySizeIsSound(t *testing.T) {
	t.Parallel()
	const floppyRoom = (floppyClusters - 1) * sector
	var sizes []int
	for _, size := range []int{
		2, 512, 1024, 2048, 4096, 32768, 65536, floppyRoom - 512, floppyRoom, floppyRoom + 512,
		(minFAT16Clusters - 1) * 1024, 4 << 20,
	} {
		sizes = append(sizes, size-1, size, size+1)
	}
	for n := 4080; n < 4700; n += 47 { // table sizes and their rounding
		sizes = append(sizes, n*1024)
	}
	for size := 32<<20 - 340<<10; size < 32<<20; size += 67 << 10 { // the last images with clusters of two sectors
		sizes = append(sizes, size)
	}
	sizes = append(sizes, 8<<20, 16<<20, 32<<20, 40<<20, cloudinit.MaxData-len("{}\n"))

	content := bytesOf(cloudinit.MaxData, 1)
	path := filepath.Join(t.TempDir(), "seed.img")
	for _, size := range sizes {
		seed := cloudinit.Seed{UserData: content[:size]}
		require.NoError(t, Write(path, seed), "user-data of %d bytes", size)
		requireSound(t, path, fmt.Sprintf("user-data of %d bytes", size))
		requireReadable(t, path, seed)
	}
}

func TestImageSizes(t *testing.T) {
	t.Parallel()
	const floppyRoom = (floppyClusters - 1) * sector
	for _, tc := range []struct {
		name       string
		data, want int
	}{
		{"small data get a floppy disk", 100, 1440 << 10},
		{"a full floppy disk", floppyRoom, 1440 << 10},
		{"one byte more is the smallest FAT16", floppyRoom + 1, 4160 << 10},
		{"16 MiB", 16 << 20, 16<<20 + 128<<10},
		{"the limit", cloudinit.MaxData - len("{}\n"), cloudinit.MaxData + 192<<10},
	} {
		image, err := Image(cloudinit.Seed{UserData: bytesOf(tc.data, 1)})
		require.NoError(t, err, tc.name)
		require.Equal(t, tc.want, len(image), tc.name)
	}
	_, err := Image(cloudinit.Seed{UserData: make([]byte, cloudinit.MaxData-2)})
	require.EqualError(t, err, "the data are 67108865 bytes long, at most 67108864 (64 MiB) fit")
}

func TestImagesAreDeterministic(t *testing.T) {
	// This test is not parallel because it changes the environment of the process.
	first, err := Image(fourFiles())
	require.NoError(t, err)
	require.Equal(t, "c72c", fmt.Sprintf("%x", sha256.Sum256(first))[:4],
		"the image changed: guests don't mind, but say so in the changelog")
	for _, epoch := range []string{"", "0", "1700000000", "99999999999"} {
		t.Setenv("SOURCE_DATE_EPOCH", epoch)
		again, err := Image(fourFiles())
		require.NoError(t, err)
		require.True(t, bytes.Equal(first, again), "SOURCE_DATE_EPOCH=%s", epoch)
	}
	changed := fourFiles()
	changed.UserData[20] ^= 1
	other, err := Image(changed)
	require.NoError(t, err)
	require.False(t, bytes.Equal(first, other))
}

func TestTheFileIsTheImage(t *testing.T) {
	t.Parallel()
	for _, seed := range []cloudinit.Seed{fourFiles(), {UserData: bytesOf(3<<20, 1)}} {
		path := writeSeed(t, seed)
		want, err := Image(seed)
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))

		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		require.Less(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(len(want))-500<<10, "free space is a hole")
	}
}

func TestTheFileIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	path := writeSeed(t, fourFiles())
	open, err := os.Open(path)
	require.NoError(t, err)
	defer open.Close()
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	seed := fourFiles()
	seed.NetworkConfig = nil
	require.NoError(t, Write(path, seed))
	old := make([]byte, len(before))
	_, err = open.ReadAt(old, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, old), "who has the old image open keeps it")
	_, err = exec.Command(tool(t, "mtype", "mtools"), "-i", path, "::network-config").Output()
	require.Error(t, err, "a removed networkConfig disappears")

	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")
}

func TestAFileThatCantBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing", "seed.img")
	require.ErrorIs(t, Write(missing, fourFiles()), fs.ErrNotExist)
	require.ErrorContains(t, Write(missing, fourFiles()), "make cloud-init image: write "+missing+": ")

	occupied := filepath.Join(dir, "occupied")
	require.NoError(t, os.MkdirAll(filepath.Join(occupied, "x"), 0o700))
	require.ErrorContains(t, Write(occupied, fourFiles()), "make cloud-init image: write "+occupied+": ")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")
}

func TestTheDiskRefusesWhatIsBeyondItsEnd(t *testing.T) {
	t.Parallel()
	m := &memory{size: 10}
	_, err := m.WriteAt([]byte("abc"), 8)
	require.ErrorContains(t, err, "write 3 bytes at 8 of a disk of 10 bytes")
	_, err = m.ReadAt(make([]byte, 1), 11)
	require.ErrorContains(t, err, "read at 11 of a disk of 10 bytes")
	n, err := m.WriteAt([]byte("abc"), 7)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, m.data, 10)
}

func TestWhatWasNotWrittenIsZero(t *testing.T) {
	t.Parallel()
	m := &memory{size: 10}
	for _, at := range []int64{3, 1} { // leaves a gap first, then overwrites existing data
		_, err := m.WriteAt([]byte("a"), at)
		require.NoError(t, err)
	}
	require.Equal(t, "\x00a\x00a", string(m.data))
	got := []byte("???????")
	n, err := m.ReadAt(got, 2)
	require.NoError(t, err)
	require.Equal(t, len(got), n)
	require.Equal(t, "\x00a\x00\x00\x00\x00\x00", string(got))
	n, err = m.ReadAt(got, 8)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "\x00\x00", string(got[:n]))
}
