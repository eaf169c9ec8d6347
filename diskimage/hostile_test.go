package diskimage_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
)

// hostile creates an image that names a file and returns the image. The file contains the secret.
func hostile(t *testing.T, make func(t *testing.T, dir, secret string)) []byte {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, bytes.Repeat([]byte("SECRET! "), 64<<10), 0o600))
	make(t, dir, secret)
	data, err := os.ReadFile(filepath.Join(dir, "image"))
	require.NoError(t, err)
	return data
}

// Images of the classes that made other importers disclose host files are refused.
func TestImagesThatNameFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make   func(t *testing.T, dir, secret string)
		reason diskimage.Reason
	}{
		"qcow2 with a backing file": {func(t *testing.T, dir, secret string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-b", secret, "-F", "raw", dir+"/image")
		}, diskimage.ImageHasBackingFile},
		"qcow2 with a backing file of JSON": {func(t *testing.T, dir, secret string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-u", "-F", "raw", "-b",
				`json:{"driver":"raw","file":{"driver":"file","filename":"`+secret+`"}}`, dir+"/image", "1M")
		}, diskimage.ImageHasBackingFile},
		"qcow2 with a backing file on a server": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-u", "-F", "raw", "-b", "nbd://127.0.0.1:1/x", dir+"/image",
				"1M")
		}, diskimage.ImageHasBackingFile},
		"qcow2 with a data file (CVE-2024-32498)": {func(t *testing.T, dir, secret string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-o",
				"data_file="+dir+"/data,data_file_raw=on", dir+"/image", "1M")
			qemuImg(t, "amend", "-f", "qcow2", "-o", "data_file="+dir+"/data", dir+"/image")
			patch(t, dir+"/image", dir+"/data", secret)
		}, diskimage.ImageHasExternalData},
		"qcow2 with a data file of JSON (CVE-2024-4467)": {func(t *testing.T, dir, secret string) {
			long := dir + "/" + strings.Repeat("d", 200)
			qemuImg(t, "create", "-q", "-f", "qcow2", "-o", "data_file="+long, dir+"/image", "1M")
			patch(t, dir+"/image", long, `json:{"driver":"raw","file":{"driver":"file","filename":"`+secret+`"}}`)
		}, diskimage.ImageHasExternalData},
		"qcow2 that names a data file without the feature": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-o", "data_file="+dir+"/data", dir+"/image", "1M")
			change(t, dir+"/image", func(b []byte) { b[79] &^= 4 }) // the last byte of the features
		}, diskimage.ImageHasExternalData},
		"vmdk as a description of a flat extent (CVE-2022-47951)": {func(t *testing.T, dir, secret string) {
			text := "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n" +
				"createType=\"monolithicFlat\"\n\nRW 1024 FLAT \"" + secret + "\" 0\n"
			require.NoError(t, os.WriteFile(dir+"/image", []byte(text), 0o600))
			require.Contains(t, read(t, "vmdk", dir+"/image"), "SECRET!", "qemu-img would show it")
		}, diskimage.ImageHasExternalData},
		"vmdk of no sectors with a description (CVE-2022-47951)": {func(t *testing.T, dir, secret string) {
			text := "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n" +
				"createType=\"monolithicFlat\"\n\nRW 1024 FLAT \"" + secret + "\" 0\n"
			header := make([]byte, 21*512)
			copy(header, "KDMV\x01\x00\x00\x00")
			binary.LittleEndian.PutUint64(header[28:], 1)
			binary.LittleEndian.PutUint64(header[36:], 20)
			copy(header[512:], text)
			require.NoError(t, os.WriteFile(dir+"/image", header, 0o600))
			require.Contains(t, read(t, "vmdk", dir+"/image"), "SECRET!", "qemu-img would show it")
		}, diskimage.ImageHasExternalData},
		"vmdk with an extent in another file": {func(t *testing.T, dir, secret string) {
			probeVMDK(t, dir, `RW 2048 SPARSE "image"`, `RW 2048 FLAT "`+secret[:len("image")-2]+`"`)
		}, diskimage.ImageHasExternalData},
		"vmdk of another type": {func(t *testing.T, dir, _ string) {
			probeVMDK(t, dir, `"monolithicSparse"`, `"monolithicFlat"`)
		}, diskimage.ImageHasExternalData},
		"vmdk in several files": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "vmdk", "-o", "subformat=twoGbMaxExtentSparse", dir+"/image", "1M")
		}, diskimage.ImageHasExternalData},
		"vmdk with a parent": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "vmdk", dir+"/parent", "1M")
			qemuImg(t, "create", "-q", "-f", "vmdk", "-b", dir+"/parent", "-F", "vmdk", dir+"/image")
		}, diskimage.ImageHasBackingFile},
		"vmdk with a parent where only QEMU looks": {func(t *testing.T, dir, secret string) {
			qemuImg(t, "create", "-q", "-f", "vmdk", dir+"/image", "1M")
			change(t, dir+"/image", func(b []byte) {
				copy(b[40*512:], b[512:21*512])
				copy(b[512:], "# Disk DescriptorFile\nCID=1\nparentCID=2\nparentFileNameHint=\""+secret+"\"\n\x00")
				binary.LittleEndian.PutUint64(b[28:], 40)
			})
		}, diskimage.ImageHasBackingFile},
		"vhd that is a difference": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "vpc", dir+"/image", "4M")
			change(t, dir+"/image", func(b []byte) { b[63] = 4 })
		}, diskimage.ImageHasBackingFile},
		"vdi that is a difference": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "vdi", dir+"/image", "4M")
			change(t, dir+"/image", func(b []byte) { b[0x4c] = 4 })
		}, diskimage.ImageHasBackingFile},
		"vdi with a parent": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "vdi", dir+"/image", "4M")
			change(t, dir+"/image", func(b []byte) { b[0x1b8] = 4 })
		}, diskimage.ImageHasBackingFile},
		"vhdx with a parent": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "vhdx", dir+"/image", "4M")
			change(t, dir+"/image", func(b []byte) {
				settings := bytes.Index(b[1<<20:], []byte("\x37\x67\xa1\xca\x36\xfa\x43\x4d")) + 1<<20
				at := bytes.Index(b, []byte("metadata"))
				b[at+int(binary.LittleEndian.Uint32(b[settings+16:]))+4] |= 2
			})
		}, diskimage.ImageHasBackingFile},
		"luks": {func(t *testing.T, dir, _ string) { // qemu-img needs 8 s to create one
			header := append([]byte("LUKS\xba\xbe\x00\x01aes"), make([]byte, 2000)...)
			require.NoError(t, os.WriteFile(dir+"/image", header, 0o600))
		}, diskimage.ImageEncrypted},
		"qcow2 encrypted by luks": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", dir+"/image", "1M")
			change(t, dir+"/image", func(b []byte) { b[35] = 2 })
		}, diskimage.ImageEncrypted},
		"qcow2 with the header of an encryption": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", dir+"/image", "1M")
			change(t, dir+"/image", func(b []byte) {
				names := bytes.Index(b, []byte("\x68\x03\xf8\x57")) // the header extension with the names of features
				copy(b[names:], "\x05\x37\xbe\x77")
			})
		}, diskimage.ImageEncrypted},
		"qcow2 encrypted by AES": {func(t *testing.T, dir, _ string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", dir+"/image", "1M")
			change(t, dir+"/image", func(b []byte) { b[35] = 1 })
		}, diskimage.ImageEncrypted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := hostile(t, c.make)
			refused(t, to(t, diskimage.HTTP{URL: served(t, data)}), c.reason, "the image")
			refused(t, to(t, diskimage.Reader{R: bytes.NewReader(data)}), c.reason, "the image")
		})
	}
}

// read returns what qemu-img reads from an image without our checks.
func read(t *testing.T, format, image string) string {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	qemuImg(t, "convert", "-f", format, "-O", "raw", image, raw)
	data, err := os.ReadFile(raw)
	require.NoError(t, err)
	return string(data)
}

// change modifies a file, which may grow.
func change(t *testing.T, file string, how func([]byte)) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data = append(data, make([]byte, max(0, 64<<10-len(data)))...)
	how(data)
	require.NoError(t, os.WriteFile(file, data, 0o600))
}

// patch replaces a name in a qcow2 header extension with a shorter name.
func patch(t *testing.T, file, old, name string) {
	t.Helper()
	change(t, file, func(b []byte) {
		at := bytes.Index(b, []byte(old))
		require.Positive(t, at)
		require.LessOrEqual(t, len(name), len(old)+7)
		copy(b[at:], make([]byte, len(old)))
		copy(b[at:], name)
		binary.BigEndian.PutUint32(b[at-4:], uint32(len(name)))
	})
}

// probeVMDK creates an image with another text, of at most the same length, in its descriptor.
func probeVMDK(t *testing.T, dir, old, text string) {
	t.Helper()
	qemuImg(t, "create", "-q", "-f", "vmdk", dir+"/image", "1M")
	change(t, dir+"/image", func(b []byte) {
		at := bytes.Index(b, []byte(old))
		require.Positive(t, at)
		require.LessOrEqual(t, len(text), len(old))
		copy(b[at:], text+strings.Repeat(" ", len(old)-len(text)))
	})
}

// Even if the header check failed, qemu-img could not open a file that an image names.
func TestQEMUImgOpensNothingElse(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T, dir, secret string){
		"a backing file": func(t *testing.T, dir, secret string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-b", secret, "-F", "raw", dir+"/image")
		},
		"a data file": func(t *testing.T, dir, secret string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-o",
				"data_file="+dir+"/data,data_file_raw=on", dir+"/image", "1M")
			require.NoError(t, os.Remove(dir+"/data"))
			require.NoError(t, os.Rename(secret, dir+"/data"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			secret := filepath.Join(dir, "secret")
			require.NoError(t, os.WriteFile(secret, bytes.Repeat([]byte("SECRET! "), 64<<10), 0o600))
			make(t, dir, secret)
			out := filepath.Join(dir, "out")
			err := diskimage.ConvertUnchecked(t.Context(), filepath.Join(dir, "image"), diskimage.QCOW2, out, 1<<20)
			data, readErr := os.ReadFile(out)
			require.NoError(t, readErr)
			require.NotContains(t, string(data), "SECRET")
			if name == "a data file" {
				require.ErrorContains(t, err, "Could not open")
			} else {
				require.NoError(t, err, "it isn't opened at all")
			}
		})
	}
}

// A guest can write any header into its disk. An image declared as raw is always treated as raw.
func TestACopyOfADiskIsNotProbed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "guest.img")
	for name, data := range map[string][]byte{
		"qcow2": hostile(t, func(t *testing.T, dir, secret string) {
			qemuImg(t, "create", "-q", "-f", "qcow2", "-b", secret, "-F", "raw", dir+"/image")
		}),
		"gzip": packed(t, "gzip", disk()), "xz": packed(t, "xz", disk()), "zstd": packed(t, "zstd", disk()),
	} {
		require.NoError(t, os.WriteFile(file, data, 0o600))
		for _, source := range []diskimage.Source{
			diskimage.File{Path: file},
			diskimage.File{Path: file, Length: int64(len(data)) - 1},
			diskimage.Reader{R: bytes.NewReader(data)},
		} {
			i := to(t, source)
			i.Format = diskimage.Raw
			result, got := imported(t, i)
			want := data
			if part, ok := source.(diskimage.File); ok && part.Length > 0 {
				want = data[:part.Length]
			}
			require.True(t, bytes.HasPrefix(got, want), "%s: %d bytes, and whole sectors", name, len(got))
			require.LessOrEqual(t, len(got), len(want)+511, name)
			require.Equal(t, diskimage.Raw, result.Format, name)
			require.Empty(t, result.Compression, name)
		}
	}
	i := to(t, diskimage.File{Path: file})
	i.Format = diskimage.QCOW2
	refused(t, i, diskimage.InvalidSource, "use raw")
}

func TestOtherFormatsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := func(format string) []byte {
		qemuImg(t, "create", "-q", "-f", format, filepath.Join(dir, format), "1M")
		data, err := os.ReadFile(filepath.Join(dir, format))
		require.NoError(t, err)
		return data
	}
	tape := bytes.Repeat([]byte{0}, 1024)
	copy(tape[257:], "ustar")
	for text, c := range map[string]struct {
		data   []byte
		reason diskimage.Reason
	}{
		"is qcow, the format before qcow2": {made("qcow"), diskimage.UnsupportedFormat},
		"is QED":                           {made("qed"), diskimage.UnsupportedFormat},
		"is Parallels":                     {made("parallels"), diskimage.UnsupportedFormat},
		"is a zip archive":                 {[]byte("PK\x03\x04..."), diskimage.UnsupportedFormat},
		"is a tar archive":                 {tape, diskimage.UnsupportedFormat},
		"is bzip2":                         {[]byte("BZh91AY"), diskimage.UnsupportedFormat},
		"is a page of HTML":                {[]byte("\n <!DOCTYPE html>\n<html>"), diskimage.UnsupportedFormat},
		"is empty":                         {nil, diskimage.ImageEmpty},
		"qcow2 of version 9": {
			append([]byte("QFI\xfb\x00\x00\x00\x09"), make([]byte, 200)...), diskimage.UnsupportedFormat,
		},
		"compressed twice": {packed(t, "gzip", packed(t, "xz", disk())), diskimage.UnsupportedFormat},
	} {
		refused(t, to(t, diskimage.Reader{R: bytes.NewReader(c.data)}), c.reason, text)
	}
}

// packed returns the data as compressed by a program.
func packed(t testing.TB, program string, data []byte) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-c")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	require.NoError(t, err)
	return out
}
