package inventory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/runner/adopt/lock"
	"vmop/runner/config"
	"vmop/runner/disks"
	"vmop/runner/disks/snapshot"
	"vmop/runner/prepare"
	"vmop/vmspec"
)

// A Renamed describes a VM that was renamed.
type Renamed struct {
	// File is the path of its configuration.
	File string
	// Notes are for people: what carries the old name and was not changed.
	Notes []string
}

// Rename renames a stopped VM: its configuration, its data directory with the known host keys and snapshots, and its
// autostart. After an interruption, the VM has its old or its new name, and repeating the call completes it. The error
// is ErrRunning if the VM is running, or ErrExists if the new name is taken.
//
// First the folders get their new names, and links with the old names. Then the configuration changes. Finally the
// links are removed.
func (inv *Inventory) Rename(ctx context.Context, name, to string) (done Renamed, err error) {
	what := fmt.Sprintf("rename %s to %s", name, to)
	vm, err := inv.placedVM(ctx, name)
	if err == nil {
		err = cmp.Or(checkNewName(to), vm.Fault)
	}
	if err != nil {
		return done, err
	}
	release, err := vm.reserveStopped(what)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if runs, err := lock.Runs(vm.DataDir); runs || err != nil {
		return done, fmt.Errorf("%s: %w", what, cmp.Or(err, ErrRunning))
	}
	if err := snapshot.Recover(ctx, vm.DataDir); err != nil {
		return done, err
	}
	r, err := inv.planRenaming(vm, to)
	if err == nil {
		err = r.renameAll(ctx)
	}
	if err != nil {
		return done, fmt.Errorf("%s: %w", what, err)
	}
	return Renamed{File: r.file, Notes: r.notes()}, nil
}

// renaming is a change of a VM's name.
type renaming struct {
	vm *VM
	to string
	// before is the text of the configuration, and text the changed one for file.
	before, text []byte
	file         string
	moves        []folderMove
}

// drivesIn returns the drives in a configuration, with absolute paths.
func drivesIn(file string, text []byte) ([]vmspec.Drive, error) {
	cfg, _, err := config.Parse(file, text)
	if err != nil {
		return nil, err
	}
	return cfg.VM.WithDefaults().Within(filepath.Dir(file)).Drives, nil
}

// planRenaming checks that a VM can get another name, and computes the changes.
func (inv *Inventory) planRenaming(vm *VM, to string) (r *renaming, err error) {
	r = &renaming{vm: vm, to: to, file: filepath.Join(vm.Place.Folder, to+suffix)}
	if filepath.Base(vm.File) == ownFolders {
		r.moves = append(r.moves, folderMove{from: filepath.Dir(vm.File), to: filepath.Join(vm.Place.Folder, to)})
		r.file = filepath.Join(r.moves[0].to, ownFolders)
	}
	if isReservedFile(r.file) {
		return nil, fmt.Errorf("%s is a file with another meaning; take another name", r.file)
	}
	if vm.usualDataDir() {
		r.moves = append(r.moves, folderMove{from: vm.DataDir, to: filepath.Join(filepath.Dir(vm.DataDir), to)})
		// With DynamicUser, systemd keeps the data elsewhere, and the data directory is a link.
		if target, err := os.Readlink(vm.DataDir); err == nil && !leadsTo(vm.DataDir, to) {
			r.moves[len(r.moves)-1].real = vmspec.Within(filepath.Dir(vm.DataDir), target)
		}
	}
	if r.before, err = vm.readText(); err != nil {
		return nil, err
	}
	if r.text, err = r.renamedText(r.before); err != nil {
		return nil, err
	}
	if err := r.checkBases(); err != nil {
		return nil, err
	}
	return r, r.checkFree(inv)
}

// checkFree checks that the new name is free, or that an earlier call has begun to use it for this VM.
func (r *renaming) checkFree(inv *Inventory) error {
	for _, m := range r.moves {
		if _, err := os.Lstat(m.to); err == nil && !m.hasBegun() {
			return fmt.Errorf("%w, or the data of a deleted VM: %s; take another name", ErrExists, m.to)
		}
	}
	there, err := readfile.ReadFile(r.file, yamlfile.LargestFile)
	switch {
	case err == nil && (bytes.Equal(there, r.text) || bytes.Equal(there, r.before)) && r.hasBegun():
		return nil
	case err == nil || slices.Contains(inv.Names(), r.to) && !r.hasBegun():
		return fmt.Errorf("%s: %w", r.to, ErrExists)
	}
	return nil
}

// hasBegun reports whether an earlier call was interrupted.
func (r *renaming) hasBegun() bool { return slices.ContainsFunc(r.moves, folderMove.hasBegun) }

// newPath returns the path of a file after the renaming.
func (r *renaming) newPath(path string) string {
	for _, m := range r.moves {
		if rest, below := strings.CutPrefix(path, m.from+"/"); below {
			return filepath.Join(m.to, rest)
		}
	}
	return path
}

// renamedText returns the text of a configuration with the new name, and with paths into the moved folders.
func (r *renaming) renamedText(text []byte) ([]byte, error) {
	before, err := drivesIn(r.vm.File, text)
	if err != nil {
		return nil, err
	}
	for _, m := range r.moves {
		path := regexp.MustCompile(`(^|[\s"'=:,\[{])` + regexp.QuoteMeta(m.from) + `/`)
		text = path.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(m.to, "$", "$$")+"/"))
	}
	if text, err = SetInVM(text, quoteYAML(r.to), "name"); err != nil {
		return nil, err
	}
	now, err := drivesIn(r.file, text)
	if err != nil {
		return nil, err
	}
	for i, d := range before { // relative paths may lead elsewhere now
		if want := r.newPath(d.File); d.File != "" && now[i].File != want {
			if text, err = SetInVM(text, quoteYAML(want), "drives", strconv.Itoa(i), "file"); err != nil {
				return nil, err
			}
		}
	}
	return text, nil
}

// checkBases refuses images with backing files that would move.
func (r *renaming) checkBases() error {
	drives, err := drivesIn(r.vm.File, r.before)
	if err != nil {
		return err
	}
	for _, d := range drives {
		if d.Type != vmspec.DriveRaw || d.File == "" {
			continue
		}
		for _, base := range disks.Bases(d.File) {
			if r.newPath(base) != base {
				return fmt.Errorf("the image %s names its backing file %s, which would move; move that elsewhere, and change the "+
					"name in the image with qemu-img rebase", d.File, base)
			}
		}
	}
	return nil
}

// renameAll changes everything that carries the name.
func (r *renaming) renameAll(ctx context.Context) (err error) {
	if err := r.prepareRecords(); err != nil {
		return err
	}
	var undo []func() error
	defer func() {
		if err != nil {
			for _, step := range slices.Backward(undo) {
				err = errors.Join(err, step())
			}
		}
	}()
	place, starts := r.vm.Place, r.vm.Service.Autostart
	if starts {
		if _, err := place.runSystemctl(ctx, "enable", "--", unitName(r.to)); err != nil {
			return err
		}
		undo = append(undo, func() error {
			_, err := place.runSystemctl(context.WithoutCancel(ctx), "disable", "--", unitName(r.to))
			return err
		})
	}
	for _, m := range r.moves {
		if err := m.moveFolder(); err != nil {
			return err
		}
		undo = append(undo, m.moveBack)
	}
	if err := r.writeConfiguration(); err != nil {
		return err
	}
	undo = nil
	return r.completeRenaming(ctx, starts)
}

// prepareRecords adds to records in the data directory what is needed after the renaming.
func (r *renaming) prepareRecords() error {
	if r.hasBegun() {
		return nil
	}
	drives, err := drivesIn(r.vm.File, r.before)
	if err != nil {
		return err
	}
	return errors.Join(prepare.MoveRecords(r.vm.DataDir, drives, r.newPath), r.addKnownHosts())
}

// writeConfiguration replaces the configuration. From now on, the VM has its new name.
func (r *renaming) writeConfiguration() error {
	if filepath.Base(r.vm.File) == ownFolders {
		return atomicfile.Rewrite(r.file, r.text)
	}
	info, err := os.Stat(r.vm.File)
	if err != nil {
		return err
	}
	err = atomicfile.Create(r.file, r.text, info.Mode().Perm())
	if err != nil && !errors.Is(err, fs.ErrExist) { // checkFree knows an existing one
		return err
	}
	if err := os.Remove(r.vm.File); err != nil {
		return err
	}
	return atomicfile.SyncFolder(r.vm.Place.Folder)
}

// completeRenaming removes what has the old name.
func (r *renaming) completeRenaming(ctx context.Context, starts bool) error {
	var all []error
	for _, m := range r.moves {
		all = append(all, m.removeLinks())
	}
	if starts {
		_, err := r.vm.Place.runSystemctl(ctx, "disable", "--", r.vm.Service.Unit)
		all = append(all, err)
	}
	dataDir := r.newPath(r.vm.DataDir + "/")
	snapshots, err := snapshot.List(dataDir)
	all = append(all, err)
	for _, s := range snapshots {
		text, file, err := snapshot.Config(dataDir, s.Name)
		if err == nil {
			text, err = r.renamedText(text)
		}
		if err == nil {
			err = atomicfile.Rewrite(file, text)
		}
		all = append(all, err)
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("the VM has its new name, but not everything was changed: %w", err)
	}
	return nil
}

// addKnownHosts adds the guest's host keys under the new name.
func (r *renaming) addKnownHosts() error {
	file := r.vm.KnownHosts()
	text, err := readfile.ReadFile(file, prepare.LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	more := string(text)
	for line := range strings.Lines(string(text)) {
		// All keys in this file are the guest's. ssh may have hashed its name.
		if _, key, found := strings.Cut(strings.TrimSpace(line), " "); found && line[0] != '#' && line[0] != '@' {
			more += SSHAlias(r.to) + " " + key + "\n"
		}
	}
	return atomicfile.Rewrite(file, []byte(more))
}

// notes returns what carries the old name and was not changed.
func (r *renaming) notes() (list []string) {
	folder := "/etc/systemd/system"
	if !r.vm.Place.System {
		folder = filepath.Join(filepath.Dir(r.vm.Place.Folder), "systemd", "user")
	}
	for _, name := range []string{unitName(r.vm.Name) + ".d", unitName(r.vm.Name)} {
		if path := filepath.Join(folder, name); r.vm.Service.Unit != "" {
			if _, err := os.Lstat(path); err == nil {
				list = append(list, fmt.Sprintf("%s belongs to the old name; rename it, and run: systemctl daemon-reload", path))
			}
		}
	}
	return list
}

// SSHAlias is the name of a VM's guest for ssh.
func SSHAlias(name string) string { return "vmrunner-" + name }

// KnownHosts returns the path of the file with the host keys of the VM's guest.
func (vm *VM) KnownHosts() string { return filepath.Join(vm.DataDir, "known_hosts") }
