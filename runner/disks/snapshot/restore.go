package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"vmop/diskimage"
	"vmop/internal/atomicfile"
)

// stagedSuffix is appended to the name of a file to get the name of its replacement.
const stagedSuffix = ".restored"

// A Restore describes how a snapshot is restored.
type Restore struct {
	DataDir  string
	Snapshot string
	// From is the data directory that contains the snapshot; "" means DataDir. With another directory, devices
	// can't be restored.
	From string
	// Parts are the parts of the VM as it is configured (see [Parts]), with the paths to restore to.
	Parts []Part
	// Config is the file for the configuration in the snapshot; "" to skip it.
	Config string
	// Progress is called often; it may be nil.
	Progress func(Progress)

	at func(point string) error // for tests: an error is like the end of the program
}

// Run replaces the disks of a stopped VM, and the other parts of the snapshot. Even after an interruption, either
// everything is unchanged, or everything is as in the snapshot once another restore or the start of the VM has
// finished the restore. The caller holds the lock of the runner.
func (r Restore) Run(ctx context.Context) error {
	if err := removeLeftovers(r.DataDir); err != nil {
		return err
	}
	if err := finishRestore(ctx, r.DataDir, r.at); err != nil {
		return err
	}
	r.From = cmp.Or(r.From, r.DataDir)
	d, err := Read(r.From, r.Snapshot)
	if err != nil {
		return err
	}
	j := &journal{Snapshot: r.Snapshot}
	if j.Steps, err = r.restoreSteps(d); err == nil && r.From != r.DataDir && j.writesDevices() {
		err = errors.New("a disk of the new VM is a device; only files are restored to another VM")
	}
	if err != nil {
		return fmt.Errorf("restore the snapshot %s: %w", r.Snapshot, err)
	}
	if err = j.writeJournal(r.DataDir); err == nil {
		if err = r.stageAll(ctx, j); err == nil {
			j.Committed = true
			err = j.writeJournal(r.DataDir)
			j.Committed = err == nil
		}
	}
	if stop := new(stopped); errors.As(err, stop) {
		return err
	}
	if err != nil {
		return fmt.Errorf("restore the snapshot %s: %w", r.Snapshot, errors.Join(err, j.withdrawRestore(r.DataDir)))
	}
	return finishRestore(ctx, r.DataDir, r.at)
}

// stopped is the end of the program, in tests.
type stopped string

func (s stopped) Error() string { return "stopped at: " + string(s) }

// restoreSteps matches the parts of the snapshot with the parts of the VM.
func (r Restore) restoreSteps(d Description) (steps []step, err error) {
	used := map[string]bool{}
	for _, have := range d.Parts {
		now, found := r.matchPart(have)
		switch {
		case found:
		case have.Kind == Disk:
			return nil, fmt.Errorf("its disk %s (%s) no longer belongs to the VM; also restore the configuration (--with-config), or "+
				"put the disk into it", have.Name, have.Path)
		default:
			continue // the VM no longer has a TPM, or has other firmware
		}
		used[now.Path] = true
		s, err := stepTo(have, now.Path)
		if err != nil {
			return nil, err
		}
		if now.Kind.isImage() && s.Part.Format != now.Format {
			return nil, fmt.Errorf("%s has the format %s in the snapshot, and %s in the configuration; restore the configuration, "+
				"too (--with-config)", have.Name, have.Format, now.Format)
		}
		steps = append(steps, s)
	}
	for _, p := range r.Parts {
		if p.Kind == Disk && !used[p.Path] {
			return nil, fmt.Errorf("the disk %s (%s) is newer than the snapshot; also restore the configuration (--with-config), or "+
				"remove the disk from it", p.Name, p.Path)
		}
	}
	if r.Config != "" {
		s, err := stepTo(Part{Kind: File, Name: configFile, Stored: configFile}, r.Config)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// matchPart returns the VM's part for a part of the snapshot. Disks are identified by their paths, or by their serial
// numbers.
func (r Restore) matchPart(have Part) (Part, bool) {
	i := -1
	if have.Kind == Disk {
		i = slices.IndexFunc(r.Parts, func(p Part) bool { return p.Kind == Disk && p.Path == have.Path })
	}
	if i < 0 {
		i = slices.IndexFunc(r.Parts, func(p Part) bool { return p.Kind == have.Kind && p.Name == have.Name })
	}
	if i < 0 {
		return Part{}, false
	}
	return r.Parts[i], true
}

// stepTo returns the step that restores a part to a path. A link is kept, and its target is replaced.
func stepTo(p Part, path string) (step, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if !errors.Is(err, fs.ErrNotExist) {
		return step{}, err
	}
	s := step{Part: p, To: path, Staged: path + stagedSuffix}
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeDevice {
		s.Staged = ""
		return s, checkFits(p, path)
	}
	return s, nil
}

// checkFits returns an error if an image doesn't fit on a device, or if the device is in use.
func checkFits(p Part, path string) error {
	device, err := os.OpenFile(path, os.O_RDWR|syscall.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	size, err := device.Seek(0, io.SeekEnd)
	if err == nil && size < p.Size {
		err = fmt.Errorf("the device %s has %s, and the disk in the snapshot %s", path, diskimage.Size(size),
			diskimage.Size(p.Size))
	}
	return err
}

// stageAll creates the replacements, durably.
func (r Restore) stageAll(ctx context.Context, j *journal) error {
	total := sum{tell: r.Progress}
	for _, s := range j.Steps {
		if s.Part.Kind == Disk {
			total.Total += s.Part.Size
		}
	}
	for _, s := range j.Steps {
		if s.Staged == "" {
			continue
		}
		if err := reachPoint(r.at, "stage "+s.To); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(s.Staged), diskimage.RemoveLeftovers(s.Staged)); err != nil {
			return err
		}
		tell := func(int64) {}
		if s.Part.Kind == Disk {
			tell = total.partProgress()
		}
		if err := s.stagePart(ctx, snapshotFolder(r.From, j.Snapshot), tell); err != nil {
			return fmt.Errorf("%s: %w", s.Part.Name, err)
		}
	}
	return reachPoint(r.at, "commit")
}

func (s step) stagePart(ctx context.Context, folder string, tell func(int64)) error {
	from := filepath.Join(folder, s.Part.Stored)
	switch {
	case s.Part.Kind == Folder:
		return stageFolder(ctx, from, s.Staged)
	case s.Part.StoredFormat == "qcow2" && s.Part.Format == "raw":
		if err := convertDisk(ctx, from, s.Staged, func(percent float64) {
			tell(int64(percent / 100 * float64(s.Part.Size)))
		}); err != nil {
			return err
		}
	default:
		if _, err := copyFile(ctx, from, s.Staged, tell); err != nil {
			return err
		}
	}
	if old, err := os.Stat(s.To); err == nil {
		if err := os.Chmod(s.Staged, old.Mode().Perm()); err != nil {
			return err
		}
		if owner, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = os.Chown(s.Staged, int(owner.Uid), int(owner.Gid)) // as far as that is permitted
		}
	}
	return atomicfile.Sync(s.Staged)
}

func stageFolder(ctx context.Context, from, to string) error {
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.Mkdir(to, 0o700)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := copyFile(ctx, filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), nil); err != nil {
			return err
		}
	}
	if err := syncAll(to); err != nil {
		return err
	}
	return atomicfile.SyncFolder(filepath.Dir(to))
}

// convertDisk creates a raw disk from an image that QEMU has written. A guest that has broken out may have changed
// the image, so it is handled like an untrusted image.
func convertDisk(ctx context.Context, from, to string, percent func(float64)) error {
	const long = 7 * 24 * time.Hour
	i := diskimage.Import{
		Source: diskimage.File{Path: from}, Target: diskimage.Target{Path: to},
		Limits: diskimage.Limits{VirtualSize: 1 << 60, Time: long, CPU: long},
	}
	if percent != nil {
		i.Progress = func(p diskimage.Progress) { percent(p.Percent) }
	}
	_, err := i.Run(ctx)
	return err
}
