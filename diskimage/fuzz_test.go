package diskimage_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
)

// Probe terminates for any first bytes of an image, and an accepted image has a known format and a valid size.
func FuzzProbe(f *testing.F) {
	for _, args := range [][]string{
		{"qcow2"},
		{"qcow2", "-o", "compat=0.10"},
		{"vmdk"},
		{"vmdk", "-o", "subformat=streamOptimized"},
		{"vhdx"},
		{"vdi"},
		{"vpc"},
		{"qed"},
		{"qcow"},
		{"raw"},
	} {
		data := image(f, make([]byte, 1<<20), append([]string{"-O"}, args...)...)
		f.Add(data[:min(len(data), 4096)])
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		info, err := diskimage.Probe(header)
		if err != nil {
			require.NotEqual(t, diskimage.Internal, diskimage.ReasonOf(err))
			return
		}
		switch info.Format {
		case diskimage.Raw, diskimage.ISO, diskimage.VHDX:
			require.Zero(t, info.VirtualSize)
		case diskimage.QCOW2, diskimage.VMDK, diskimage.VDI, diskimage.VPC:
			require.Positive(t, info.VirtualSize)
		default:
			require.Fail(t, string(info.Format))
		}
	})
}

// FuzzProbeAgreesWithQEMU checks that qemu-img info finds no backing file, data file or foreign extent in any image
// that Probe accepts. The input changes bytes of valid or nearly valid images.
func FuzzProbeAgreesWithQEMU(f *testing.F) {
	dir := f.TempDir()
	var images [][]byte
	for i, args := range [][]string{
		{"-f", "qcow2"},
		{"-f", "qcow2", "-o", "compat=0.10"},
		{"-f", "qcow2", "-u", "-b", "/dev/null", "-F", "raw"},
		{"-f", "qcow2", "-o", "data_file=" + filepath.Join(dir, "d")},
		{"-f", "vmdk"},
		{"-f", "vmdk", "-b", filepath.Join(dir, "4"), "-F", "vmdk"},
		{"-f", "vdi"},
	} {
		file := filepath.Join(dir, strconv.Itoa(i))
		qemuImg(f, append(append([]string{"create", "-q"}, args...), file, "1M")...)
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		images = append(images, data)
		// The seeds are unchanged images, and images without the backing file's offset, the features or the capacity of
		// a vmdk.
		f.Add(uint8(i), []byte{0, 0, data[0]})
		f.Add(uint8(i), []byte{0, 8, 0, 0, 9, 0, 0, 10, 0, 0, 11, 0, 0, 12, 0, 0, 13, 0, 0, 14, 0, 0, 15, 0})
		f.Add(uint8(i), []byte{0, 79, 0})
		f.Add(uint8(i), []byte{0, 12, 0, 0, 13, 0, 0, 28, 40})
	}
	f.Fuzz(func(t *testing.T, which uint8, changes []byte) {
		data := bytes.Clone(images[int(which)%len(images)])
		for ; len(changes) >= 3; changes = changes[3:] { // offset and value
			data[(int(changes[0])<<8|int(changes[1]))%len(data)] = changes[2]
		}
		info, err := diskimage.Probe(data[:min(len(data), diskimage.HeaderSize)])
		if err != nil || info.Format.Plain() {
			return
		}
		file := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(file, data, 0o600))
		out, err := exec.CommandContext(t.Context(), "qemu-img", "info", "-f", string(info.Format), "--output", "json",
			file).Output()
		if err != nil {
			return
		}
		for _, key := range []string{`"backing-filename"`, `"data-file"`, `"encrypted": true`} {
			require.NotContains(t, string(out), key)
		}
		require.LessOrEqual(t, strings.Count(string(out), `"filename"`), 2, "its own name, also as its extent's name")
	})
}
