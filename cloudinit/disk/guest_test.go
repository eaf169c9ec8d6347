package disk_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/cloudinit"
	"vmop/cloudinit/disk"
	"vmop/test/guest"
)

// TestLinuxReadsWhatWasWritten boots a Linux with three seeds as its disks, one for each kind of image, and lets it
// mount them and print the hash of every file.
func TestLinuxReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	small := []byte("#cloud-config\n{}\n")
	sizes := []int{1000, 5 << 20, 33 << 20} // FAT12, FAT16 with clusters of two and of four sectors
	qemu, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "install the package qemu-system-x86")
	image := guest.Tiny(t)
	args := []string{
		"-nodefaults", "-display", "none", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256", "-serial",
		"stdio",
		"-kernel", image.Kernel, "-initrd", image.Initrd, "-append", guest.CommandLine,
	}
	var want []string
	for i, size := range sizes {
		large := []byte(strings.Repeat("0123456789abcde\n", size/16)) // not the user-data, which the guest prints
		seed := cloudinit.Seed{MetaData: small, UserData: small, NetworkConfig: small, VendorData: large}
		path := filepath.Join(t.TempDir(), fmt.Sprintf("seed%d.img", i))
		require.NoError(t, disk.Write(path, seed))
		args = append(args, "-drive", "format=raw,readonly=on,if=virtio,file="+path)
		for name, content := range map[string][]byte{
			"meta-data": small, "user-data": small, "network-config": small,
			"vendor-data": large,
		} {
			want = append(want, fmt.Sprintf("%x  /mnt/%c/%s", sha256.Sum256(content), 'a'+i, name))
		}
	}

	guest.TakePlace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	got := converse(ctx, t, exec.CommandContext(ctx, qemu, args...),
		"sh cd /dev; for d in vd?; do m=/mnt/${d#vd}; mkdir -p $m; mount -t vfat -o ro $d $m; sha256sum $m/*; done")
	require.ElementsMatch(t, want, got)
}

// converse runs QEMU, gives the guest one command when it is ready, and returns the hashes it prints until it reports
// the command's end.
func converse(ctx context.Context, t *testing.T, qemu *exec.Cmd, command string) (hashes []string) {
	t.Helper()
	keyboard, err := qemu.StdinPipe()
	require.NoError(t, err)
	console, err := qemu.StdoutPipe()
	require.NoError(t, err)
	var fault strings.Builder
	qemu.Stderr = &fault
	require.NoError(t, qemu.Start())
	defer func() {
		_ = qemu.Process.Kill()
		_ = qemu.Wait()
	}()
	var all []string
	for scan := bufio.NewScanner(console); scan.Scan(); {
		line := strings.TrimRight(scan.Text(), "\r")
		all = append(all, line)
		hash, path, isHash := strings.Cut(line, "  /mnt/")
		switch {
		case strings.HasSuffix(line, " READY"):
			_, err := fmt.Fprintln(keyboard, command)
			require.NoError(t, err)
		case isHash && len(hash) == 2*sha256.Size && path != "":
			hashes = append(hashes, line)
		case line == "rc=0":
			return hashes
		}
	}
	require.FailNow(t, "the guest ended early", "%v\n%s\n%s", ctx.Err(), fault.String(), strings.Join(all, "\n"))
	return nil
}
