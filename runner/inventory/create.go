package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vmop/durable"
	"vmop/runner/config"
	"vmop/runner/lock"
	"vmop/vmspec"
)

// Place returns the folder of the user, or that of the computer.
func (inv *Inventory) Place(system bool) (*Place, error) {
	for i := range inv.opts.Places {
		if inv.opts.Places[i].System == system {
			return &inv.opts.Places[i], nil
		}
	}
	if system {
		return nil, errors.New("there is no folder for VMs of the computer")
	}
	return nil, errors.New("there is no folder for VMs of this user: neither XDG_CONFIG_HOME nor HOME is set")
}

// ReviewNew checks the configuration of a new VM, of the user or of the computer, as Create does before it writes: the
// command line, the pages and the JSON interface get the same errors. Files must exist, unlike for Review.
// The error is ErrExists if the name is taken. Data of a deleted VM of this name are part of the review.
func (inv *Inventory) ReviewNew(ctx context.Context, name string, system bool, text []byte) (*Review, error) {
	_, review, err := inv.reviewNew(ctx, name, system, text)
	if err != nil {
		return nil, err
	}
	return review, review.absent
}

func (inv *Inventory) reviewNew(ctx context.Context, name string, system bool, text []byte) (*VM, *Review, error) {
	if err := checkNewName(name); err != nil {
		return nil, nil, err
	}
	place, err := inv.Place(system)
	if err != nil {
		return nil, nil, err
	}
	if slices.Contains(inv.Names(), name) {
		return nil, nil, fmt.Errorf("create %s: %w", name, ErrExists)
	}
	vm := &VM{Name: name, File: filepath.Join(place.Folder, name+suffix), Place: place}
	if reserved(vm.File) {
		return nil, nil, fmt.Errorf("create %s: %s is a file with another meaning; take another name", name, vm.File)
	}
	review, err := inv.check(ctx, vm, text)
	if err != nil {
		return nil, nil, err
	}
	cfg, _, err := config.Parse(vm.File, text)
	if err == nil {
		err = vm.locate(cfg)
	}
	if err == nil {
		review.Leftover, err = vm.leftover(vm.DataDir)
	}
	return vm, review, err
}

// Create writes the configuration of a new VM: of the user, or of the computer. It returns
// the file, and warnings about it. A text with errors is refused, see Review.
// The error is ErrExists if the name is taken; nothing is overwritten. It is a LeftoverError if there are data of a
// deleted VM of this name and data is no choice.
func (inv *Inventory) Create(
	ctx context.Context, name string, system bool, text []byte, data Data,
) (file string, warnings []string, err error) {
	vm, review, err := inv.reviewNew(ctx, name, system, text)
	if err == nil {
		err = review.absent
	}
	if err != nil {
		return "", nil, err
	}
	if review.Leftover != nil {
		if err := review.Leftover.applyChoice(data); err != nil {
			return "", nil, err
		}
	}
	if err := vm.Place.makeFolder(); err != nil {
		return "", nil, fmt.Errorf("create %s: %w", name, err)
	}
	err = durable.Create(vm.File, text, fileMode)
	if errors.Is(err, fs.ErrExist) {
		err = ErrExists
	}
	if err != nil {
		return "", nil, fmt.Errorf("create %s: %w", name, err)
	}
	return vm.File, review.Warnings, nil
}

// makeFolder makes the folder if it isn't there. Everybody may look into that of the computer, whatever
// the umask: the names of its VMs are no secret, and the policy in it holds for all users.
func (p *Place) makeFolder() error {
	if !p.System {
		return os.MkdirAll(p.Folder, 0o700)
	}
	for _, folder := range []string{filepath.Dir(p.Folder), p.Folder} {
		err := os.Mkdir(folder, 0o755)
		if err == nil {
			err = os.Chmod(folder, 0o755)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// DeleteOptions say what goes with a VM.
type DeleteOptions struct {
	// Force ends a VM that runs.
	Force bool
	// Disks deletes the VM's data directory, with the disks, firmware variables and TPM
	// in it, if it is where data directories are by default.
	Disks bool
}

// Delete deletes a VM's configuration. It returns what is left: the data directory, and
// disks elsewhere. The error is ErrRunning if the VM runs.
func (inv *Inventory) Delete(ctx context.Context, name string, opts DeleteOptions) (left []string, err error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case vm.Place == nil:
		return nil, fmt.Errorf("delete %s: it runs by a configuration in none of the folders for VMs: %w", name, ErrUnknown)
	case vm.Running() && !opts.Force:
		return nil, fmt.Errorf("delete %s: %w", name, ErrRunning)
	case vm.Running():
		if err := inv.End(ctx, name, true); err != nil {
			return nil, err
		}
	}
	if vm.Service.Autostart {
		if _, err := vm.Place.systemctl(ctx, "disable", "--", vm.Service.Unit); err != nil {
			return nil, err
		}
	}
	// From here on no runner can start it.
	held, err := lock.Runner(vm.DataDir)
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	if err := os.Remove(vm.File); err != nil {
		return nil, fmt.Errorf("delete %s: %w", name, err)
	}
	if filepath.Base(vm.File) == ownFolders {
		_ = os.Remove(filepath.Dir(vm.File)) // unless there are more files in it
	}
	if opts.Disks && vm.usualDataDir() {
		if err := os.RemoveAll(vm.DataDir); err != nil {
			return nil, fmt.Errorf("delete the data of %s: %w", name, err)
		}
	}
	return vm.left(), nil
}

// usualDataDir reports whether the data directory is the VM's alone.
func (vm *VM) usualDataDir() bool {
	unset := config.Config{VM: vmspec.Spec{Name: vm.Name}}
	usual, err := unset.DataDirectory(vm.Place.Env)
	return err == nil && usual == vm.DataDir
}

// Left returns what stays when a VM's configuration is deleted: the data directory, and disks
// elsewhere.
func (inv *Inventory) Left(ctx context.Context, name string) ([]string, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return vm.left(), nil
}

// left returns what is there of a VM besides its configuration.
func (vm *VM) left() (paths []string) {
	add := func(path string) {
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	add(vm.DataDir)
	if vm.Config == nil {
		return paths
	}
	for _, d := range vm.Config.VM.WithDefaults().Within(filepath.Dir(vm.File)).Drives {
		rel, err := filepath.Rel(vm.DataDir, d.File)
		if d.Type == vmspec.DriveRaw && d.File != "" && (err != nil || !filepath.IsLocal(rel)) {
			add(d.File)
		}
	}
	return paths
}
