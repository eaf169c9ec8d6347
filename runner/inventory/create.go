package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vmop/internal/atomicfile"
	"vmop/runner/adopt/lock"
	"vmop/runner/config"
	"vmop/vmspec"
)

// Place returns the folder of the user, or of the computer if system is true.
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

// ReviewNew checks the configuration of a new VM, of the user or of the computer, as Create does before it
// writes: the command line, the pages and the JSON interface get the same errors. Files must exist, unlike for
// Review. The error is ErrExists if the name is taken. The review includes data of a deleted VM with this name.
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
	if isReservedFile(vm.File) {
		return nil, nil, fmt.Errorf("create %s: %s is a file with another meaning; take another name", name, vm.File)
	}
	review, err := inv.checkText(ctx, vm, text)
	if err != nil {
		return nil, nil, err
	}
	cfg, _, err := config.Parse(vm.File, text)
	if err == nil {
		err = vm.locateVM(cfg)
	}
	if err == nil {
		review.Warnings = append(review.Warnings, inv.warnOfSizes(ctx, cfg)...)
		review.Leftover, err = vm.leftoverData(vm.DataDir)
	}
	return vm, review, err
}

// Create writes the configuration of a new VM, of the user or of the computer. It returns the file, and warnings
// about it. It refuses a text with errors, see Review. The error is ErrExists if the name is taken; Create never
// overwrites a file. The error is a LeftoverError if there is data of a deleted VM with this name and the
// argument data is not a valid choice.
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
	err = atomicfile.Create(vm.File, text, fileMode)
	if errors.Is(err, fs.ErrExist) {
		err = ErrExists
	}
	if err != nil {
		return "", nil, fmt.Errorf("create %s: %w", name, err)
	}
	return vm.File, review.Warnings, nil
}

// makeFolder creates the folder if it doesn't exist. The computer's folder is readable for everybody, regardless
// of the umask: the names of its VMs are not secret, and its policy applies to all users.
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

// DeleteOptions select what is deleted together with a VM.
type DeleteOptions struct {
	// Force ends a running VM.
	Force bool
	// Disks deletes the VM's data directory with the disks, firmware variables and TPM state, provided that it is
	// the default data directory.
	Disks bool
}

// Delete deletes a VM's configuration. It returns the paths that remain: the data directory, and disks elsewhere.
// The error is ErrRunning if the VM is running.
func (inv *Inventory) Delete(ctx context.Context, name string, opts DeleteOptions) (left []string, err error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case vm.Place == nil:
		return nil, fmt.Errorf("delete %s: it runs with a configuration outside the folders for VMs: %w", name, ErrUnknown)
	case vm.Running() && !opts.Force:
		return nil, fmt.Errorf("delete %s: %w", name, ErrRunning)
	case vm.Running():
		if err := inv.End(ctx, name, true); err != nil {
			return nil, err
		}
	}
	if vm.Service.Autostart {
		if _, err := vm.Place.runSystemctl(ctx, "disable", "--", vm.Service.Unit); err != nil {
			return nil, err
		}
	}
	// With this lock, no runner can start the VM.
	held, err := lock.Runner(vm.DataDir)
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	if err := os.Remove(vm.File); err != nil {
		return nil, fmt.Errorf("delete %s: %w", name, err)
	}
	if filepath.Base(vm.File) == ownFolders {
		_ = os.Remove(filepath.Dir(vm.File)) // fails if the folder contains more files
	}
	if opts.Disks && vm.usualDataDir() {
		if err := os.RemoveAll(vm.DataDir); err != nil {
			return nil, fmt.Errorf("delete the data of %s: %w", name, err)
		}
	}
	return vm.leftoverPaths(), nil
}

// usualDataDir reports whether the VM uses its default data directory, which no other VM uses.
func (vm *VM) usualDataDir() bool {
	unset := config.Config{VM: vmspec.Spec{Name: vm.Name}}
	usual, err := unset.DataDirectory(vm.Place.Env)
	return err == nil && usual == vm.DataDir
}

// Left returns the paths that remain when a VM's configuration is deleted: the data directory, and disks
// elsewhere.
func (inv *Inventory) Left(ctx context.Context, name string) ([]string, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return vm.leftoverPaths(), nil
}

// leftoverPaths returns the existing paths of a VM other than its configuration.
func (vm *VM) leftoverPaths() (paths []string) {
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
