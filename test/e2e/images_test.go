package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// A user uploads an image to the cluster. Two VMs read it at the same time, and can't write to it. A third VM has a
// writable disk created from it.
func images(t *testing.T, l *lab) {
	content := bytes.Repeat([]byte("what the user has sent\n"), 100_000)
	content = content[:len(content)/4096*4096]
	u := newUser(t, l)
	raw, sent := filepath.Join(u.home, "sent.raw"), filepath.Join(u.home, "sent.qcow2")
	require.NoError(t, os.WriteFile(raw, content, 0o600))
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-c", "-O", "qcow2", raw, sent).CombinedOutput()
	require.NoError(t, err, "%s", out)
	u.types("kubectl vmop image upload sent "+sent+" --size 16Mi --storage-class "+storage, "")
	u.types("kubectl vmop disk create of-sent --size 16Mi --storage-class "+storage+" --image sent", "")
	u.exports(raw, int64(len(content)))

	vm := func(name string, kind v1.BlockDeviceKind, of string) *clusterVM {
		return l.create(t, tiny(name, func(s *v1.VirtualMachineSpec) {
			s.BlockDeviceRefs = append(s.BlockDeviceRefs, v1.BlockDeviceRef{Kind: kind, Name: of})
		}))
	}
	all := []*clusterVM{
		vm("reads-image", v1.KindVirtualImage, "sent"), vm("reads-image-too", v1.KindVirtualImage, "sent"),
		vm("has-copy", v1.KindVirtualDisk, "of-sent"),
	}
	want := fmt.Sprintf("%x  -", sha256.Sum256(content))
	sum := fmt.Sprintf("head -c %d /dev/vda | sha256sum", len(content))
	const write = "echo other | dd of=/dev/vda conv=fsync 2>/dev/null && echo written || echo refused"
	for _, v := range all {
		v.runs()
	}
	var first *console
	for i, v := range all {
		inside := v.console().booted()
		require.Equal(t, want, inside.ask(sum))
		require.Equal(t, []string{"refused", "refused", "written"}[i], inside.ask(write))
		if i == 0 {
			first = inside
		}
	}
	require.Equal(t, want, first.ask("blockdev --flushbufs /dev/vda; "+sum))
}

// exports downloads the disk and the image in each format. The disk is larger than the uploaded data and ends with
// zeros.
func (u *user) exports(raw string, size int64) {
	u.t.Helper()
	u.types("kubectl vmop disk export of-sent ~/disk.qcow2 && kubectl vmop image export sent ~/image.raw --format raw && "+
		"kubectl vmop image export sent - >~/piped.raw", "")
	for _, name := range []string{"image.raw", "piped.raw"} {
		u.types("cmp ~/"+name+" "+raw, "")
	}
	disk := filepath.Join(u.home, "disk.qcow2")
	for _, line := range []string{
		"qemu-img check -q " + disk, "qemu-img compare -f qcow2 -F raw " + disk + " " + raw,
	} {
		out, err := exec.CommandContext(u.t.Context(), "sh", "-c", line).CombinedOutput()
		require.NoError(u.t, err, "%s: %s", line, out)
	}
	info, err := os.Stat(disk)
	require.NoError(u.t, err)
	require.Less(u.t, info.Size(), size+1<<20, "bytes of a disk of 16 MiB")
	require.Empty(u.t, u.types("kubectl get vd,vi -o jsonpath={.items[*].metadata.annotations.vmoperator\\.jdrupes\\.org/export}", ""))
}
