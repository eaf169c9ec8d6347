package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"vmop/internal/yamlfile"
	"vmop/runner/adopt/lock"
	"vmop/runner/config"
	"vmop/runner/disks/snapshot"
	"vmop/runner/prepare"
	"vmop/vmspec"
)

// CloneSnapshot creates a new VM from a snapshot. The VM has the snapshot's configuration with another name and
// its own uuid and hardware addresses. Its disks are in its data directory. CloneSnapshot returns the file of the
// configuration, which it writes last.
func (inv *Inventory) CloneSnapshot(
	ctx context.Context, name, called, to string, tell func(snapshot.Progress),
) (file string, err error) {
	vm, err := inv.placedVM(ctx, name)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("make %s of the snapshot %s of %s", to, called, name)
	if err := checkNewName(to); err != nil {
		return "", err
	}
	dataDir, err := (&config.Config{VM: vmspec.Spec{Name: to}}).DataDirectory(vm.Place.Env)
	if err != nil {
		return "", err
	}
	text, _, err := snapshot.Config(vm.DataDir, called)
	if err == nil {
		text, err = cloneConfiguration(vm.File, text, to, dataDir)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	made, _, err := inv.reviewNew(ctx, to, vm.Place.System, text)
	if err != nil {
		return "", err
	}
	held, err := lock.Runner(dataDir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	if err := snapshot.Recover(ctx, dataDir); err != nil {
		return "", err
	}
	prepared, _, err := inv.prepareText(ctx, made, text)
	if err != nil {
		return "", err
	}
	r := snapshot.Restore{DataDir: dataDir, From: vm.DataDir, Snapshot: called, Progress: tell}
	if r.Parts, err = snapshot.Parts(prepared); err != nil {
		return "", err
	}
	if l, err := made.leftoverData(dataDir); l != nil || err != nil {
		return "", cmp.Or(err, fmt.Errorf("cannot %s: %s contains the data of a deleted VM: %s; remove them (vmrunner delete %s "+
			"--disks), or choose another name", what, dataDir, l, to))
	}
	if err := r.Run(ctx); err != nil {
		return "", err
	}
	if err := cloneOrigins(vm, dataDir, prepared.Spec.Drives); err != nil {
		return "", err
	}
	file, _, err = inv.Create(ctx, to, vm.Place.System, text, KeepData)
	return file, err
}

// CloneVM creates a new VM like CloneSnapshot, with copies of the current disks of a VM. Until it has copied them, the
// VM has one more snapshot.
func (inv *Inventory) CloneVM(
	ctx context.Context, name, to string, tell func(snapshot.Progress),
) (file string, err error) {
	if err := checkNewName(to); err != nil {
		return "", err
	}
	if slices.Contains(inv.Names(), to) {
		return "", fmt.Errorf("clone %s to %s: %w", name, to, ErrExists)
	}
	called := "clone-" + snapshot.DefaultName(time.Now())
	if _, err := inv.CreateSnapshot(ctx, name, called, true, tell); err != nil {
		return "", err
	}
	defer func() { // without the caller's cancellation, which would leave the snapshot
		err = errors.Join(err, inv.RemoveSnapshot(context.WithoutCancel(ctx), name, called))
	}()
	return inv.CloneSnapshot(ctx, name, called, to, tell)
}

// cloneOrigins records the disks of a clone. They have the same sources as the original disks.
func cloneOrigins(of *VM, dataDir string, drives []vmspec.Drive) error {
	before, err := prepare.ReadOrigins(of.DataDir)
	if err != nil {
		return err
	}
	return prepare.EditOrigins(dataDir, drives, func(o prepare.Origins) {
		o.Add(drives, prepare.Earlier)
		for path, known := range before {
			if copied := filepath.Join(dataDir, filepath.Base(path)); o[copied] != (prepare.DiskOrigin{}) {
				o[copied] = known
			}
		}
	})
}

// cloneConfiguration returns the configuration of a clone with its disks in its data directory. file is the
// configuration of the original VM; the paths in it are relative to that file.
func cloneConfiguration(file string, text []byte, name, dataDir string) ([]byte, error) {
	cfg, _, err := config.Parse(file, text)
	if err != nil {
		return nil, err
	}
	if cfg.DataDir != "" || cfg.RuntimeDir != "" {
		return nil, errors.New("its configuration has a dataDir or a runtimeDir, which two VMs can't share")
	}
	if cfg.VM.UUID != "" {
		return nil, errors.New("its configuration has a vm.uuid, which two VMs can't share")
	}
	for i, n := range cfg.VM.Network {
		if n.MAC != "" {
			return nil, fmt.Errorf("its configuration has a vm.network[%d].mac, which two VMs can't share", i)
		}
	}
	section, err := SectionOf(text)
	if err != nil {
		return nil, err
	}
	set := func(value string, path ...string) {
		quoted, e := json.Marshal(value) // JSON is valid YAML
		if err = errors.Join(err, e); err == nil {
			text, err = yamlfile.Edit(text, string(quoted), append([]string{section, "vm"}, path...)...)
		}
	}
	set(name, "name")
	used := map[string]bool{}
	for i, d := range cfg.VM.WithDefaults().Within(filepath.Dir(file)).Drives {
		path := d.File
		switch {
		case d.NBD != nil && !d.ReadOnly:
			return nil, fmt.Errorf("its vm.drives[%d] is a disk of an NBD server, which two VMs can't write to", i)
		case d.Type == vmspec.DriveRaw && !d.ReadOnly && path == "":
			return nil, fmt.Errorf("its vm.drives[%d] is a device, and that stays one VM's", i)
		case d.Type == vmspec.DriveRaw && !d.ReadOnly:
			path = filepath.Join(dataDir, filepath.Base(path))
		case path == "":
			continue
		}
		if used[path] {
			return nil, fmt.Errorf("two of its disks are called %s, and both would be in %s", filepath.Base(path),
				dataDir)
		}
		used[path] = true
		set(path, "drives", strconv.Itoa(i), "file")
	}
	return text, err
}
