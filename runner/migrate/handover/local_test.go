package handover

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/migrate"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
)

// newLocal returns a trial of a guest that writes records to a disk that the sides don't share.
func newLocal(t *testing.T, from, to string) *trial {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk."+from)
	if raw := path; from == "qcow2" {
		raw += ".raw"
		require.NoError(t, os.WriteFile(raw, guest.Recorder(), 0o600))
		convert(t, raw, "raw", path, "qcow2")
	} else {
		require.NoError(t, os.WriteFile(raw, guest.Recorder(), 0o600))
	}
	return newLocalOf(t, path, filepath.Join(t.TempDir(), "disk."+to))
}

func newLocalOf(t *testing.T, from, to string) *trial {
	t.Helper()
	r := newTrialOf(t, from)
	r.toDisk = to
	r.images = []Image{NewFile("a", "r", to, formatOf(to), guest.RecorderSize)}
	return r
}

func convert(t testing.TB, from, format, to, toFormat string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-U", "-f", format, "-O", toFormat, from,
		to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// whole stops a guest and requires that the image in QEMU contains every reported record, intact and in its newest
// version.
func (r *trial) whole(m *machine, disk string) {
	r.t.Helper()
	m.moves()
	require.Empty(r.t, m.fault(r.t.Context(), "stop"))
	raw := filepath.Join(r.t.TempDir(), "raw")
	convert(r.t, disk, formatOf(disk), raw, "raw")
	text, err := os.ReadFile(raw)
	require.NoError(r.t, err)
	wait.For(r.t, "what is printed", func() error {
		said := m.counts()
		return guest.CheckRecords(text, uint32(said[len(said)-1]))
	})
	require.False(r.t, m.lost, "the guest has found its memory or its disk wrong")
	require.Empty(r.t, m.fault(r.t.Context(), "cont"))
}

// stayed, arrived and nothingArrived check a guest's local disk.
func (r *trial) stayed() {
	if r.images != nil {
		r.stays()
	}
}

func (r *trial) arrived() {
	if r.images != nil {
		r.whole(r.to, r.toDisk)
		r.nothingOfQEMU(r.to)
	}
}

func (r *trial) nothingArrived() {
	r.t.Helper()
	if r.images == nil {
		return
	}
	var names []string
	wait.Until(r.t, func() bool {
		names = r.arrivals()
		note, err := Read(r.toDir)
		require.NoError(r.t, err)
		if !note.Whole || note.Record != migrate.Given {
			return len(names) == 0
		}
		// The target has all data, and the source may be gone forever, as a user confirms.
		require.Len(r.t, names, 2)
		require.NoError(r.t, note.Settle())
		require.Equal(r.t, []string{filepath.Base(r.toDisk)}, r.arrivals())
		return true
	}, "left: %v", &names)
}

// arrivals returns the names in the folder of the target's disk.
func (r *trial) arrivals() (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(r.toDisk))
	require.NoError(r.t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// stays requires that the guest has kept all its data, and that the target is clean.
func (r *trial) stays() {
	r.t.Helper()
	exactlyOne(r.t, r.from, r.there())
	r.whole(r.from, r.disk)
	r.nothingOfQEMU(r.from)
	r.nothingArrived()
}

// nothingOfQEMU requires that a QEMU has no objects of a migration left.
func (r *trial) nothingOfQEMU(m *machine) {
	r.t.Helper()
	for _, query := range []string{"query-jobs", "query-block-exports", "query-named-block-nodes"} {
		reply, err := m.Command(r.t.Context(), qmp.Command{Execute: query})
		require.NoError(r.t, err)
		require.NotContains(r.t, string(reply), own)
	}
}

// came requires that the guest is at the target with all its data.
func (r *trial) came(target *Target) {
	r.t.Helper()
	require.NoError(r.t, get(r.t, target.Decided()))
	exactlyOne(r.t, r.to, r.from)
	require.IsIncreasing(r.t, append(r.from.counts(), r.to.counts()...))
	r.whole(r.to, r.toDisk)
	r.nothingOfQEMU(r.to)
	require.Equal(r.t, []string{filepath.Base(r.toDisk)}, r.arrivals())
}

// A guest that writes continuously moves with its local disk, and no record is lost, repeated or torn.
func TestAGuestMovesWithItsDisk(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"raw", "raw"}, {"qcow2", "qcow2"}, {"raw", "qcow2"}, {"qcow2", "raw"}} {
		t.Run(c[0]+" to "+c[1], func(t *testing.T) {
			t.Parallel()
			r := newLocal(t, c[0], c[1])
			var far Progress
			r.at = func(side string, p Progress) {
				if side == "source" && p.DiskTotal > 0 {
					far = p
				}
			}
			target, receiving := r.asTarget()
			sending := r.asSource()
			require.NoError(t, get(t, sending.ended))
			require.NoError(t, get(t, receiving.ended))
			r.came(target)
			unrecorded(t, r.toDir)
			require.Positive(t, far.DiskTotal)
			require.Positive(t, far.Total)
			info, err := os.Stat(r.toDisk)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		})
	}
}

// An overlay arrives as one image with the whole chain's data and its holes.
func TestAnOverlayIsMoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base, over := filepath.Join(dir, "base"), filepath.Join(dir, "over.qcow2")
	require.NoError(t, os.WriteFile(base, guest.Recorder(), 0o600))
	out, err := exec.CommandContext(t.Context(), "qemu-img", "create", "-f", "qcow2", "-F", "raw", "-b", base,
		over).CombinedOutput()
	require.NoError(t, err, "%s", out)
	r := newLocalOf(t, over, filepath.Join(t.TempDir(), "disk.qcow2"))
	target, receiving := r.asTarget()
	require.NoError(t, get(t, r.asSource().ended))
	require.NoError(t, get(t, receiving.ended))
	require.NoError(t, os.Remove(base))
	r.came(target)
}

// An existing image at the target stays unchanged, and the guest stays at the source.
func TestAnImageThatIsThereIsNotTouched(t *testing.T) {
	t.Parallel()
	r := newLocal(t, "raw", "raw")
	require.NoError(t, os.WriteFile(r.toDisk, []byte("another's"), 0o600))
	target, receiving := r.asTarget()
	require.ErrorContains(t, get(t, r.asSource().ended), "file exists")
	require.Error(t, get(t, target.Decided()))
	require.NoError(t, get(t, receiving.ended))
	exactlyOne(t, r.from, nil)
	text, err := os.ReadFile(r.toDisk)
	require.NoError(t, err)
	require.Equal(t, "another's", string(text))
	require.NoError(t, os.Remove(r.toDisk))
	r.stays()
	unrecorded(t, r.fromDir, r.toDir)
}

// If the target's file system is full, the guest stays at the source.
func TestTheDiskOfTheTargetIsFull(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for _, format := range []string{"raw", "qcow2"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			small := filepath.Join(t.TempDir(), "small")
			require.NoError(t, os.Mkdir(small, 0o700))
			out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs",
				small).CombinedOutput()
			require.NoError(t, err, "this test needs root: %s", out)
			t.Cleanup(func() { _ = exec.CommandContext(context.WithoutCancel(t.Context()), "umount", small).Run() })
			r := newLocal(t, "raw", format)
			r.toDisk = filepath.Join(small, "disk."+format)
			r.images = []Image{NewFile("a", "r", r.toDisk, format, guest.RecorderSize)}
			wait.Until(t, func() bool { return len(r.from.counts()) > 1000 })
			target, receiving := r.asTarget()
			require.ErrorContains(t, get(t, r.asSource().ended), "No space left on device")
			require.ErrorContains(t, get(t, target.Decided()), "the source keeps the guest: QEMU cannot copy the disks")
			require.NoError(t, get(t, receiving.ended))
			r.stays()
			unrecorded(t, r.fromDir, r.toDir)
		})
	}
}

// After Ctrl-C or any other failure, the guest stays at the source with all its data, and the target is clean.
func TestADiskStays(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*trial){
		"cancelled":          func(r *trial) { r.source.Cancel(r.t.Context(), errors.New("cancelled")) },
		"the target refuses": func(*trial) {},
	} {
		for _, when := range []string{"disk", "memory", "switch"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				r := newLocal(t, "raw", "qcow2")
				if name == "the target refuses" {
					r.takeFault = errors.New("the disk is full")
				}
				if when == "disk" {
					r.bounds.Bandwidth = 1 << 20
				}
				var once sync.Once
				r.at = func(side string, p Progress) {
					begun := when == "disk" && p.DiskTotal > 0 || when == "memory" && p.Total > 0 ||
						when == "switch" && p.Stage == string(migrate.Switching)
					if side == "source" && begun && name != "the target refuses" {
						once.Do(func() { go end(r) })
					}
				}
				target, receiving := r.asTarget()
				err := get(t, r.asSource().ended)
				if err == nil {
					require.Equal(t, "cancelled switch", name+" "+when, "too late")
					r.came(target)
					return
				}
				require.Error(t, get(t, target.Decided()))
				require.NoError(t, get(t, receiving.ended))
				r.stays()
				unrecorded(t, r.fromDir, r.toDir)
			})
		}
	}
}

// The cheaper version without a guest: the disk is copied, or the copy is removed.
func TestTheDiskOfABareMachine(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		r := newBare(t)
		r.toDisk = filepath.Join(t.TempDir(), blank+".qcow2")
		r.images = []Image{NewFile("a", "r", r.toDisk, "qcow2", 2<<20)}
		if cancelled {
			r.bounds.Bandwidth = 1 << 20
		}
		var once sync.Once
		r.at = func(side string, p Progress) {
			if cancelled && side == "source" && p.DiskTotal > 0 {
				once.Do(func() { go r.source.Cancel(t.Context(), errors.New("cancelled")) })
			}
		}
		target, receiving := r.asTarget()
		sent, received := get(t, r.asSource().ended), get(t, target.Decided())
		require.NoError(t, get(t, receiving.ended))
		if cancelled {
			require.ErrorContains(t, sent, "cancelled")
			require.ErrorContains(t, received, "the source keeps the guest: cancelled")
			exactlyOne(t, r.from, r.there())
			r.nothingOfQEMU(r.from)
			require.Empty(t, r.arrivals())
			unrecorded(t, r.fromDir, r.toDir)
			continue
		}
		require.NoError(t, errors.Join(sent, received))
		exactlyOne(t, r.to, r.from)
		r.nothingOfQEMU(r.to)
		require.Equal(t, []string{filepath.Base(r.toDisk)}, r.arrivals())
		raw := filepath.Join(t.TempDir(), "raw")
		convert(t, r.toDisk, "qcow2", raw, "raw")
		was, err := os.ReadFile(r.disk)
		require.NoError(t, err)
		is, err := os.ReadFile(raw)
		require.NoError(t, err)
		require.Equal(t, was, is)
	}
}
