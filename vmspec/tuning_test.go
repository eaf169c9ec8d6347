package vmspec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each wrong setting of a disk is an error with its path.
func TestTuningFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		drive Drive
		want  []string
	}{
		{Drive{Cache: "none", AIO: "native", IOThread: "fast-1", Discard: "ignore", DetectZeroes: "on"}, nil},
		{Drive{LogicalBlockSize: 512, PhysicalBlockSize: 4 * KiB, RotationRate: 7200}, nil},
		{Drive{Limits: &DiskLimits{IOPS: 1, BytesRead: 1, BytesWrite: GiB}}, nil},
		{Drive{Cache: "writeback", AIO: "native"}, []string{
			"vm.drives[0].aio: native needs direct I/O, and cache: writeback uses the host's page cache " +
				"(cache: none, or aio: threads)",
		}},
		{Drive{Cache: "writback", AIO: "uring"}, []string{
			`vm.drives[0].cache: can't be "writback" (did you mean writeback? ` +
				"It can be none, writeback, writethrough, directsync or unsafe)",
			`vm.drives[0].aio: can't be "uring" (it can be threads, native or io_uring)`,
		}},
		{Drive{DetectZeroes: "unmap", Discard: "ignore", IOThread: "a b"}, []string{
			`vm.drives[0].iothread: "a b" is not the name of a thread (letters, digits, - and _, such as fast)`,
			"vm.drives[0].detectZeroes: unmap frees space, and discard: ignore keeps it (detectZeroes: on, or discard: unmap)",
		}},
		{Drive{LogicalBlockSize: 1000, RotationRate: 2}, []string{
			"vm.drives[0].logicalBlockSize: can't be 1000 B (a power of 2 from 512 bytes to 2 MiB, such as 4 KiB)",
			"vm.drives[0].rotationRate: can't be 2 (1 for a disk without rotation, or 1025 to 65534)",
		}},
		{Drive{LogicalBlockSize: 4 * KiB, PhysicalBlockSize: 512}, []string{
			"vm.drives[0].physicalBlockSize: is 512 B, less than logicalBlockSize, which is 4 KiB (the same size or more)",
		}},
		{Drive{Limits: &DiskLimits{IOPS: 1, IOPSWrite: 2, Bytes: 2e15}}, []string{
			"vm.drives[0].limits.iopsWrite: iops is given as well, which limits reads and writes together " +
				"(give iops, or iopsRead and iopsWrite)",
			"vm.drives[0].limits.bytes: can't be 2000000000000000 (1 to 1000000000000000 per second)",
		}},
		{Drive{Type: DriveIDECD, Cache: "none", Limits: &DiskLimits{}}, []string{
			"vm.drives[0].cache: is not for a CD drive (it is for disks)",
			"vm.drives[0].limits: is not for a CD drive (it is for disks)",
		}},
		{Drive{NBD: &NBD{Host: "disks"}, AIO: "threads", Discard: "unmap"}, []string{
			"vm.drives[0].aio: is not for a disk of an NBD server (leave it out)",
		}},
	} {
		if c.drive.Type == "" && c.drive.NBD == nil {
			c.drive.File = "/a.img"
		}
		var got []string
		for _, f := range (Spec{Name: "a", Drives: []Drive{c.drive}}).WithDefaults().Check() {
			got = append(got, f.String())
		}
		require.Equal(t, c.want, got)
	}
}

// A copy of a spec shares no limits with the original.
func TestLimitsAreCopied(t *testing.T) {
	t.Parallel()
	limits := &DiskLimits{IOPS: 1}
	whole := Spec{Name: "a", Drives: []Drive{{File: "/a.img", Limits: limits}}}.WithDefaults()
	limits.IOPS = 2
	require.Equal(t, DiskLimits{IOPS: 1}, whole.Drives[0].WantedLimits())
}
