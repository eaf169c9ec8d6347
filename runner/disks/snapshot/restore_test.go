package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/test/folder"
	"vmop/vmspec"
)

// stoppedVM is a stopped VM with each kind of data that snapshots contain.
type stoppedVM struct {
	t     *testing.T
	dir   string
	data  string
	parts []Part
}

func newStopped(t *testing.T) *stoppedVM {
	t.Helper()
	v := &stoppedVM{t: t, dir: t.TempDir()}
	v.data = filepath.Join(v.dir, "data")
	require.NoError(t, os.MkdirAll(filepath.Join(v.data, "tpm"), 0o700))
	for i, format := range []string{"raw", "raw", "qcow2"} {
		v.parts = append(v.parts, Part{
			Kind: Disk, Name: fmt.Sprintf("disk%d", i), Path: filepath.Join(v.dir, fmt.Sprintf("disk%d", i)),
			Format: format, Stored: fmt.Sprintf("drive%d", i),
		})
	}
	vars := filePart(filepath.Join(v.data, "fw-vars.fd"))
	vars.Kind, vars.Format = Firmware, "raw"
	v.parts = append(v.parts, vars, filePart(filepath.Join(v.data, "vmtype.txtar")),
		Part{Kind: Folder, Name: "tpm", Path: filepath.Join(v.data, "tpm"), Stored: "tpm"})
	v.fill("old")
	return v
}

// fill gives all files a content.
func (v *stoppedVM) fill(text string) {
	v.t.Helper()
	for _, p := range v.parts {
		path := p.Path
		if p.Kind == Folder {
			require.NoError(v.t, os.RemoveAll(path))
			require.NoError(v.t, os.Mkdir(path, 0o700))
			path = filepath.Join(path, "state-"+text)
		}
		content := []byte(p.Name + " " + text)
		if p.Kind.isImage() {
			content = append(content, make([]byte, 300<<10)...)
			content = append(content, content...) // with a hole
			content = append(content, make([]byte, 512-len(content)%512)...)
		}
		require.NoError(v.t, os.WriteFile(path, content, 0o600))
	}
	v.write("config.yaml", text)
}

func (v *stoppedVM) write(name, text string) {
	v.t.Helper()
	require.NoError(v.t, os.WriteFile(filepath.Join(v.dir, name), []byte(text), 0o600))
}

// create creates a snapshot called s. With live, its raw images have the form that QEMU writes.
func (v *stoppedVM) create(live bool) {
	v.t.Helper()
	cfg, _, err := config.Parse(filepath.Join(v.dir, "config.yaml"), []byte("/Runner:\n  vm:\n    name: test\n"))
	require.NoError(v.t, err)
	b, err := beginSnapshot(&prepare.VM{DataDir: v.data, Config: cfg, Spec: vmspec.Spec{Name: "test"}}, "s", time.Now())
	require.NoError(v.t, err)
	for _, p := range v.parts {
		if !live || p.Format != "raw" {
			require.NoError(v.t, b.copyStopped(v.t.Context(), p, &sum{}))
			continue
		}
		info, err := os.Stat(p.Path)
		require.NoError(v.t, err)
		p.Stored, p.StoredFormat, p.Size = p.Stored+".qcow2", "qcow2", info.Size()
		out, err := exec.CommandContext(v.t.Context(), "qemu-img", "convert", "-f", "raw", "-O", "qcow2", p.Path,
			b.storedPath(p.Stored)).CombinedOutput()
		require.NoError(v.t, err, string(out))
		b.Parts = append(b.Parts, p)
	}
	require.NoError(v.t, os.WriteFile(b.storedPath(configFile), []byte("old"), 0o600))
	_, err = b.finishBuild()
	require.NoError(v.t, err)
}

func (v *stoppedVM) restore(at func(string) error) error {
	return Restore{
		DataDir: v.data, Snapshot: "s", Parts: v.parts, Config: filepath.Join(v.dir, "config.yaml"), at: at,
	}.Run(v.t.Context())
}

// contents returns the content of all files: "old", "new", or both.
func (v *stoppedVM) contents() string {
	v.t.Helper()
	seen := map[string]bool{}
	look := func(path string) {
		text, err := os.ReadFile(path)
		require.NoError(v.t, err)
		words, _, _ := strings.Cut(string(text), "\x00")
		seen[words[strings.LastIndexByte(words, ' ')+1:]] = true
	}
	for _, p := range v.parts {
		if p.Kind != Folder {
			look(p.Path)
			continue
		}
		entries, err := os.ReadDir(p.Path)
		require.NoError(v.t, err)
		require.Len(v.t, entries, 1)
		look(filepath.Join(p.Path, entries[0].Name()))
	}
	look(filepath.Join(v.dir, "config.yaml"))
	switch {
	case seen["old"] && seen["new"]:
		return "both"
	case seen["old"] && len(seen) == 1:
		return "old"
	case seen["new"] && len(seen) == 1:
		return "new"
	}
	return fmt.Sprint(seen)
}

// nothingLeft requires that a restore left no files.
func (v *stoppedVM) nothingLeft() {
	v.t.Helper()
	var left []string
	require.NoError(v.t, filepath.WalkDir(v.dir, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, stagedSuffix) || strings.HasSuffix(path, prepare.RestoreFile) {
			left = append(left, path)
		}
		return err
	}))
	require.Empty(v.t, left)
}

// A restore killed at any moment is complete or undone after the runner's recovery, and can be repeated.
func TestARestoreReplacesAllOrNothing(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		var points []string
		v := newStopped(t)
		v.create(live)
		v.fill("new")
		require.NoError(t, v.restore(func(point string) error {
			points = append(points, point)
			return nil
		}))
		require.Equal(t, "old", v.contents())
		v.nothingLeft()
		require.Greater(t, len(points), 2*len(v.parts))
		for i, point := range points {
			committed := !strings.HasPrefix(point, "stage ") && point != "commit"
			t.Run(fmt.Sprintf("live=%t/%d %s", live, i, filepath.Base(point)), func(t *testing.T) {
				t.Parallel()
				v := newStopped(t)
				v.create(live)
				v.fill("new")
				count := 0
				err := v.restore(func(point string) error {
					if count++; count == i+1 {
						return stopped(point)
					}
					return nil
				})
				require.ErrorAs(t, err, new(stopped))
				if !committed {
					require.Equal(t, "new", v.contents(), "before the decision nothing has changed")
				}
				require.NoError(t, Recover(t.Context(), v.data))
				want := "new"
				if committed {
					want = "old"
				}
				require.Equal(t, want, v.contents())
				v.nothingLeft()
				require.NoError(t, v.restore(nil))
				require.Equal(t, "old", v.contents())
				v.nothingLeft()
			})
		}
	}
}

// A restore that fails before replacing data leaves everything unchanged.
func TestAFailedRestoreChangesNothing(t *testing.T) {
	t.Parallel()
	v := newStopped(t)
	v.create(true)
	v.fill("new")
	bad := filepath.Join(v.data, prepare.SnapshotsFolder, "s", "drive1.qcow2")
	require.NoError(t, os.WriteFile(bad, append([]byte("QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x70"),
		make([]byte, 1<<10)...), 0o600))
	err := v.restore(nil)
	require.ErrorContains(t, err, "disk1: the image is an overlay of another file")
	require.Equal(t, "new", v.contents())
	v.nothingLeft()

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	v = newStopped(t)
	v.create(false)
	v.fill("new")
	require.Error(t, Restore{DataDir: v.data, Snapshot: "s", Parts: v.parts}.Run(ctx))
	require.Equal(t, "new", v.contents())
	v.nothingLeft()
}

// If a VM's disks have changed, it is not restored in part.
func TestARestoreWantsTheSameDisks(t *testing.T) {
	t.Parallel()
	v := newStopped(t)
	v.create(false)
	v.fill("new")
	all := v.parts
	v.parts = all[1:]
	require.ErrorContains(t, v.restore(nil), "its disk disk0")
	v.parts = append([]Part{{Kind: Disk, Name: "more", Path: filepath.Join(v.dir, "more"), Format: "raw"}}, all...)
	require.ErrorContains(t, v.restore(nil), "the disk more")
	v.parts = all
	require.Equal(t, "new", v.contents())
	require.ErrorIs(t, Restore{DataDir: v.data, Snapshot: "other"}.Run(t.Context()), ErrUnknown)
	require.NoError(t, Remove(v.data, "s"))
	require.ErrorIs(t, Remove(v.data, "s"), ErrUnknown)
	list, err := List(v.data)
	require.NoError(t, err)
	require.Empty(t, list)
}

// The unfinished snapshot of a killed program is not listed and is removed.
func TestHalfASnapshotIsNone(t *testing.T) {
	t.Parallel()
	v := newStopped(t)
	cfg, _, err := config.Parse(filepath.Join(v.dir, "config.yaml"), []byte("/Runner:\n  vm:\n    name: test\n"))
	require.NoError(t, err)
	_, err = beginSnapshot(&prepare.VM{DataDir: v.data, Config: cfg}, "s", time.Now())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(snapshotFolder(v.data, removing+"old"), 0o700))
	list, err := List(v.data)
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoError(t, Recover(t.Context(), v.data))
	entries, err := os.ReadDir(filepath.Join(v.data, prepare.SnapshotsFolder))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A device is overwritten in place. A restore killed at that point prevents the VM from starting until the restore is
// repeated.
func TestARestoreToADevice(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		v := newStopped(t)
		v.parts[0].Path = folder.Device(t, v.parts[0].Path)
		v.create(live)
		require.NoError(t, os.WriteFile(v.parts[1].Path, []byte("disk1 new"), 0o600))
		content, err := os.ReadFile(v.parts[0].Path)
		require.NoError(t, err)
		damaged := append([]byte("disk0 new\x00"), make([]byte, len(content)-10)...)
		require.NoError(t, os.WriteFile(v.parts[0].Path, damaged, 0o600))
		err = v.restore(func(point string) error {
			if strings.HasPrefix(point, "device ") {
				return stopped(point)
			}
			return nil
		})
		require.ErrorAs(t, err, new(stopped))
		require.ErrorContains(t, Recover(t.Context(), v.data), "vmrunner snapshot restore NAME s")
		require.ErrorContains(t, Remove(v.data, "s"), "it is being restored")
		require.Equal(t, "both", v.contents())
		require.NoError(t, v.restore(nil))
		require.Equal(t, "old", v.contents())
		restored, err := os.ReadFile(v.parts[0].Path)
		require.NoError(t, err)
		require.Equal(t, string(content), string(restored))
		v.nothingLeft()
		require.NoError(t, Recover(t.Context(), v.data))
	}
}
