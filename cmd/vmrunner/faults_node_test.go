package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
)

// booting launches vmrunner and waits for the tiny guest's report.
func booting(t *testing.T, dir string) (*program, *serial) {
	t.Helper()
	p := booted(t, dir)
	s := console(t, dir)
	s.await(`TINY \S+ READY`)
	return p, s
}

// identity returns the arguments of QEMU by which the guest identifies its machine.
func identity(t *testing.T, dir string) (words []string) {
	t.Helper()
	argv := invariants.Arguments(invariants.OneQEMU(t, dir))
	for i, word := range argv {
		if strings.HasPrefix(word, "virtio-net") || argv[max(i-1, 0)] == "-uuid" {
			words = append(words, word)
		}
	}
	require.Len(t, words, 2)
	return words
}

// A firmware variable as Linux shows it: its attributes (non-volatile, accessible at runtime), followed by its content.
const efiVariable = "/sys/firmware/efi/efivars/Vmop-6ba7b810-9dad-11d1-80b4-00c04fd430c8"

func TestFault36TheNodeReboots(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	image := guest.Tiny(t)
	guest.TakePlace(t)
	dir := folder(t, "standard", "accelerator: tcg", "firmware: uefi-4m", "useTpm: true", "network: [{type: user}]",
		"maximumRam: 256 MiB", "powerdownTimeout: 120",
		"kernel: {image: "+image.Kernel+", initrd: "+image.Initrd+
			", commandLine: "+guest.CommandLine+"}")
	first, guest := booting(t, dir)
	guest.typeLine(`sh printf '\007\000\000\000kept' >/tmp/v && cat /tmp/v >` + efiVariable)
	guest.await(`(?m)^rc=0`)
	guest.typeLine("tpm")
	guest.await(`tpm version=2 .*resets=\d+`)
	before, data := identity(t, dir), filepath.Join(dir, "data")
	// The TPM counts its resets.
	resets := func(s *serial) (n int) {
		text := s.out.out.String()
		_, err := fmt.Sscanf(text[strings.LastIndex(text, "resets="):], "resets=%d", &n)
		require.NoError(t, err)
		return n
	}
	counted := resets(guest)
	killAll(t, dir, first)
	files := invariants.Files(t, data)
	require.Len(t, files, 3)
	left, err := os.ReadDir(filepath.Join(dir, "run"))
	require.NoError(t, err)
	require.NotEmpty(t, left, "sockets are left, of processes that are gone")
	require.Equal(t, files, invariants.Files(t, data))

	second, guest := booting(t, dir)
	require.Equal(t, before, identity(t, dir))
	guest.typeLine("sh tail -c 4 " + efiVariable)
	guest.await(`(?m)^kept`)
	guest.typeLine("tpm")
	guest.await(`tpm version=2 .*resets=\d+`)
	require.Equal(t, counted+1, resets(guest))
	guest.typeLine("poweroff")
	require.Zero(t, second.exit())
	invariants.NothingLeft(t, dir)
}

func TestFault37NoGraceWhileTheGuestWrites(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := folder(t, "standard", append(tiny(t, ""), "drives: [{file: PATH/disk.img}]")...)
	disk := filepath.Join(dir, "disk.img")
	require.NoError(t, os.WriteFile(disk, nil, 0o600))
	require.NoError(t, os.Truncate(disk, 64<<20))
	e2fs(t, "mkfs.ext4", "-q", "-F", disk)

	first, guest := booting(t, dir)
	guest.typeLine(`sh mkdir /d && mount -t ext4 /dev/vda /d && { n=0; while :; do n=$((n+1)); echo $n >/d/$n; ` +
		`sync; echo safe $n; done; } >/dev/console 2>&1 &`)
	guest.await(`(?m)^safe 50\s`)
	killAll(t, dir, first)
	require.DirExists(t, filepath.Join(dir, "run"))

	// Only the journal must be replayed to make the file system clean. The test checks a copy, because the guest's
	// kernel should replay the original.
	copied := filepath.Join(t.TempDir(), "copy.img")
	text, err := os.ReadFile(disk)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, text, fs.FileMode(0o600)))
	e2fs(t, "e2fsck", "-E", "journal_only", "-y", copied)
	e2fs(t, "e2fsck", "-f", "-n", copied)

	second, guest := booting(t, dir)
	guest.typeLine(`sh mkdir /d && mount -t ext4 /dev/vda /d && for n in $(seq 50); do test $(cat /d/$n) = $n || ` +
		`echo lost $n; done; echo checked`)
	guest.await(`(?m)^checked`)
	require.NotRegexp(t, `(?m)^lost`, guest.out.out.String())
	guest.typeLine("poweroff")
	require.Zero(t, second.exit())
	invariants.NothingLeft(t, dir)
}

// e2fs runs a program for ext4 file systems.
func e2fs(t *testing.T, words ...string) {
	t.Helper()
	path, err := exec.LookPath(words[0])
	if err != nil {
		path, err = exec.LookPath(filepath.Join("/usr/sbin", words[0]))
	}
	require.NoError(t, err, "install the Debian package e2fsprogs")
	out, err := exec.CommandContext(t.Context(), path, words[1:]...).CombinedOutput()
	require.NoError(t, err, "%q:\n%s", words, out)
}
