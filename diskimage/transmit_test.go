package diskimage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/diskimage"
	"vmop/test/tier"
)

// sparse creates a disk with more than one L2 table and data of odd lengths in some places.
func sparse(t *testing.T, size int64) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "disk.raw"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	random := rand.New(rand.NewPCG(1, 2))
	require.NoError(t, file.Truncate(size))
	for _, at := range []int64{0, 65536 - 100, 7 << 20, 512<<20 - 5000, size - 70000} {
		data := make([]byte, 70000)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		_, err := file.WriteAt(data, at)
		require.NoError(t, err)
	}
	_, err = file.WriteAt(make([]byte, 1<<20), 20<<20) // zeros that are not a hole
	require.NoError(t, err)
	return file
}

func transmission(t *testing.T, disk *os.File, from, size int64) []byte {
	t.Helper()
	var sent bytes.Buffer
	require.NoError(t, diskimage.Transmit(t.Context(), &sent, disk, from, size))
	return sent.Bytes()
}

// A transmitted disk is identical in each format, keeps its holes, and resumes after an interruption at any offset.
func TestTransmission(t *testing.T) {
	t.Parallel()
	const size = 600 << 20
	disk := sparse(t, size)
	for _, format := range []diskimage.Format{diskimage.Raw, diskimage.QCOW2} {
		to := filepath.Join(t.TempDir(), "copy")
		file, err := diskimage.Create(to, format)
		require.NoError(t, err)
		_, err = diskimage.Create(to, format)
		require.Equal(t, diskimage.TargetBusy, diskimage.ReasonOf(err))
		reached := int64(0)
		arrival := diskimage.Arrival{To: file, Progress: func(at, of int64) {
			require.EqualValues(t, size, of)
			require.GreaterOrEqual(t, at, reached)
			reached = at
		}}
		broken := 0
		for length := 5; ; length += 40_000 {
			sent := transmission(t, disk, arrival.Reached(), size)
			err := arrival.Receive(bytes.NewReader(sent[:min(length, len(sent))]))
			if err == nil {
				break
			}
			require.NotErrorAs(t, err, new(*diskimage.Error))
			require.NoFileExists(t, to)
			broken++
		}
		require.Greater(t, broken, 4)
		require.EqualValues(t, size, reached)
		require.NoError(t, file.Close())
		qemuImg(t, "compare", "-f", "raw", "-F", string(format), disk.Name(), to)
		var info unix.Stat_t
		require.NoError(t, unix.Stat(to, &info))
		require.Less(t, info.Blocks*512, int64(3<<20), "bytes that are allocated")
		if format == diskimage.QCOW2 {
			qemuImg(t, "check", to)
		}
		_, err = diskimage.Create(to, format)
		require.Equal(t, diskimage.TargetExists, diskimage.ReasonOf(err))
	}
	const part = 30 << 20
	var plain bytes.Buffer
	arrival := diskimage.Arrival{To: &diskimage.Plain{W: &plain}, Progress: func(_, _ int64) {}}
	require.NoError(t, arrival.Receive(bytes.NewReader(transmission(t, disk, 0, part))))
	wanted, err := io.ReadAll(io.NewSectionReader(disk, 0, part))
	require.NoError(t, err)
	require.True(t, bytes.Equal(wanted, plain.Bytes()))
}

// QEMU accepts an image with more clusters than one refcount block covers.
func TestLargeQCOW2(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	const clusters = 33_000
	to := filepath.Join(t.TempDir(), "large.qcow2")
	file, err := diskimage.Create(to, diskimage.QCOW2)
	require.NoError(t, err)
	data := bytes.Repeat([]byte("x"), 512)
	for i := range int64(clusters) {
		require.NoError(t, file.Put(data, i*65536))
	}
	require.NoError(t, file.End(clusters*65536+512))
	require.NoError(t, file.Close())
	qemuImg(t, "check", to)
	qemuImg(t, "bench", "-c", "1", "-f", "qcow2", to)
	out, err := exec.CommandContext(t.Context(), "qemu-io", "-f", "qcow2", "-r",
		"-c", "read -P 0x78 2162622464 512", "-c", "read -P 0 2162622976 65024", to).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "verification failed")
}

// FuzzArrival checks that any input results in an error or a disk. The input comes from a pod that lets users run
// programs.
func FuzzArrival(f *testing.F) {
	disk, err := os.CreateTemp(f.TempDir(), "disk")
	require.NoError(f, err)
	_, err = disk.Write(bytes.Repeat([]byte("data"), 5000))
	require.NoError(f, err)
	var sent bytes.Buffer
	require.NoError(f, diskimage.Transmit(f.Context(), &sent, disk, 0, 20000))
	f.Add(sent.Bytes())
	f.Add(sent.Bytes()[:30])
	f.Fuzz(func(t *testing.T, data []byte) {
		last := int64(0)
		to := checked{func(data []byte, at int64) error {
			require.GreaterOrEqual(t, at, last)
			last = at + int64(len(data))
			return nil
		}}
		arrival := diskimage.Arrival{To: to, Progress: func(at, size int64) { require.LessOrEqual(t, at, size) }}
		_ = arrival.Receive(bytes.NewReader(data))
		require.Equal(t, last, arrival.Reached())
	})
}

type checked struct{ put func([]byte, int64) error }

func (c checked) Put(data []byte, at int64) error { return c.put(data, at) }

func (checked) End(int64) error { return nil }

// Giving up a transmission removes its file, and an invalid offset is refused.
func TestTransmissionGivenUp(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "copy")
	file, err := diskimage.Create(to, diskimage.QCOW2)
	require.NoError(t, err)
	require.NoError(t, file.Put([]byte("some"), 0))
	require.NoError(t, file.Close())
	left, err := os.ReadDir(filepath.Dir(to))
	require.NoError(t, err)
	require.Empty(t, left)

	disk := sparse(t, 600<<20)
	err = diskimage.Transmit(t.Context(), io.Discard, disk, 601<<20, 600<<20)
	require.Equal(t, diskimage.InvalidSource, diskimage.ReasonOf(err))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	require.ErrorIs(t, diskimage.Transmit(ctx, io.Discard, disk, 0, 600<<20), context.Canceled)
}
