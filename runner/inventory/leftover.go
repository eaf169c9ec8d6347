package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"vmop/runner/adopt/lock"
	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Data is what happens to the data of a deleted VM when a VM of the same name is created.
//
// See docs/decisions/0175-left-over-data.md.
type Data string

// The choices. Without a choice, such a VM isn't created.
const (
	// KeepData gives the data to the new VM: disks, TPM, uuid, snapshots.
	KeepData Data = "keep"
	// FreshData removes the data.
	FreshData Data = "fresh"
)

// Leftover is the data directory of a VM without a configuration.
type Leftover struct {
	// VM is the name of the directory and of the deleted VM.
	VM string `json:"vm"`
	// Dir is the path of the directory.
	Dir string `json:"dir"`
	// Disks are the disk images in the directory. Others describes its other files and folders.
	Disks  []Disk   `json:"disks,omitempty"`
	Others []string `json:"others,omitempty"`
	// Stored is the space that the directory occupies on the host, in bytes.
	Stored int64 `json:"stored"`

	usual bool // it is the default data directory
}

// String lists the contents: "disk.img (8 GiB), the TPM, 2 snapshots".
func (l *Leftover) String() string {
	var parts []string
	for _, d := range l.Disks {
		parts = append(parts, fmt.Sprintf("%s (%s)", filepath.Base(d.File), vmspec.Bytes(d.Size)))
	}
	return strings.Join(append(parts, l.Others...), ", ")
}

// LeftoverError reports that the data of a deleted VM prevents the creation of a VM.
type LeftoverError struct{ *Leftover }

func (e LeftoverError) Error() string {
	return fmt.Sprintf("cannot create %s: %s contains the data of a deleted VM: %s; choose whether the new VM gets them "+
		"(keep) or whether they are removed (fresh)", e.VM, e.Dir, e.Leftover)
}

// withoutData returns the files in a data directory that contain no data of a guest.
func withoutData() []string {
	return []string{
		lock.RunnerFile, lock.MachineFile, prepare.RuntimeLink, prepare.FailedFile, prepare.LogFile,
		prepare.LogFile + ".1",
	}
}

// leftoverIn returns the contents of a data directory; nil if it has no data of a guest.
func leftoverIn(name, dir string) (*Leftover, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("cannot examine the data of a deleted VM: %w", err)
	}
	l := &Leftover{VM: name, Dir: dir, Stored: storedIn(dir)}
	origins, _ := prepare.ReadOrigins(dir) // without a record, disks are known by their names
	var files []string
	identity := false
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		_, recorded := origins[path]
		switch {
		case slices.Contains(withoutData(), e.Name()), strings.HasSuffix(e.Name(), prepare.KindSuffix):
		case slices.Contains(prepare.OwnData(), e.Name()):
			identity = true
		case e.Name() == plan.TPMFolder:
			l.Others = append(l.Others, "the state of a TPM")
		case e.Name() == prepare.SnapshotsFolder:
			if list, err := os.ReadDir(path); err == nil && len(list) > 0 {
				l.Others = append(l.Others, countOf(len(list), "snapshot"))
			}
		case recorded || slices.Contains([]string{".img", ".raw", ".qcow2"}, filepath.Ext(e.Name())):
			l.Disks = append(l.Disks, leftDisk(name, path, origins))
		default:
			files = append(files, e.Name())
		}
	}
	if identity {
		l.Others = append(l.Others, "the uuid and VM type")
	}
	if files != nil {
		l.Others = append(l.Others, strings.Join(files, ", "))
	}
	if l.Disks == nil && l.Others == nil {
		return nil, nil
	}
	return l, nil
}

func leftDisk(name, path string, origins prepare.Origins) Disk {
	d := vmspec.Drive{Type: vmspec.DriveRaw, File: path, Format: "raw"}
	if filepath.Ext(path) == ".qcow2" {
		d.Format = "qcow2"
	}
	d.Serial = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return diskOf(name, 0, d, origins)
}

// countOf returns "1 snapshot", "2 snapshots".
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// storedIn returns the space that a folder occupies on the host, in bytes.
func storedIn(dir string) (stored int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // unreadable files aren't counted
		}
		if info, err := e.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				const sector = 512 // the unit of st_blocks
				stored += s.Blocks * sector
			}
		}
		return nil
	})
	return stored
}

// leftoverData returns the data that a new VM would get; nil if there is no data. It examines a directory from the
// configuration only if a VM was started with it.
func (vm *VM) leftoverData(dataDir string) (*Leftover, error) {
	l, err := leftoverIn(vm.Name, dataDir)
	if l == nil || err != nil {
		return nil, err
	}
	found := VM{Name: vm.Name, Place: vm.Place, DataDir: dataDir}
	l.usual = found.usualDataDir()
	if _, err := os.Lstat(filepath.Join(dataDir, config.UUIDFile)); !l.usual && err != nil {
		return nil, nil
	}
	return l, nil
}

// applyChoice keeps or removes left-over data before the new VM is configured.
func (l *Leftover) applyChoice(data Data) error {
	switch {
	case data == KeepData:
		return record.ForgetStartFailure(l.Dir)
	case data != FreshData:
		return LeftoverError{l}
	case !l.usual:
		return fmt.Errorf("cannot remove the data in %s: the configuration names this directory; remove them yourself, or keep "+
			"them", l.Dir)
	}
	return l.removeLeftover()
}

// removeLeftover removes the directory, unless a running VM uses it.
func (l *Leftover) removeLeftover() (err error) {
	held, err := lock.Runner(l.Dir)
	if err != nil {
		return fmt.Errorf("cannot remove the data of %s: %w", l.VM, err)
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	if runs, err := lock.Runs(l.Dir); runs || err != nil {
		return fmt.Errorf("cannot remove the data in %s: %w", l.Dir, cmp.Or(err, ErrRunning))
	}
	if err := os.RemoveAll(l.Dir); err != nil {
		return fmt.Errorf("cannot remove the data of %s: %w", l.VM, err)
	}
	return nil
}

// dataRoot returns the folder with the default data directories of VMs.
func (p *Place) dataRoot() (string, error) {
	dir, err := (&config.Config{VM: vmspec.Spec{Name: "x"}}).DataDirectory(p.Env)
	return filepath.Dir(dir), err
}

// Orphans returns the data directories of deleted VMs, sorted by name.
func (inv *Inventory) Orphans(ctx context.Context) (list []Leftover, err error) {
	vms, err := inv.List(ctx)
	if err != nil {
		return nil, err // an unlisted VM would look like a deleted VM
	}
	used := map[string]bool{}
	for i := range vms {
		used[vms[i].DataDir] = true
		if real, err := filepath.EvalSymlinks(vms[i].DataDir); err == nil { // an interrupted Rename leaves links
			used[real] = true
		}
		if r, there, err := record.Read(vms[i].RuntimeDir); err == nil && there {
			used[r.DataDir] = true
		}
	}
	for i := range inv.opts.Places {
		root, err := inv.opts.Places[i].dataRoot()
		if err != nil {
			continue // this place has no data directories
		}
		entries, _ := os.ReadDir(root) // it may belong to another user
		for _, e := range entries {
			dir := filepath.Join(root, e.Name())
			if !e.IsDir() || checkName(e.Name()) != nil || used[dir] {
				continue
			}
			used[dir] = true
			if runs, err := lock.Runs(dir); runs || err != nil {
				continue
			}
			if l, err := leftoverIn(e.Name(), dir); err == nil && l != nil {
				l.usual = true
				list = append(list, *l)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Leftover) int { return strings.Compare(a.VM, b.VM) })
	return list, nil
}

// OwnData returns the data that Delete removes with the option Disks: the contents of the VM's default data directory;
// nil if there are none.
func (inv *Inventory) OwnData(ctx context.Context, name string) (*Leftover, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil || vm.Place == nil || !vm.usualDataDir() {
		return nil, err
	}
	return leftoverIn(vm.Name, vm.DataDir)
}

// Orphan returns the data of a deleted VM. The error is ErrUnknown if there is no data.
func (inv *Inventory) Orphan(ctx context.Context, name string) (*Leftover, error) {
	list, err := inv.Orphans(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(l Leftover) bool { return l.VM == name })
	if at < 0 {
		return nil, inv.unknownName(name)
	}
	return &list[at], nil
}

// DeleteOrphan removes the data of a deleted VM, and returns what it has removed.
func (inv *Inventory) DeleteOrphan(ctx context.Context, name string) (*Leftover, error) {
	l, err := inv.Orphan(ctx, name)
	if err != nil {
		return nil, err
	}
	return l, l.removeLeftover()
}
