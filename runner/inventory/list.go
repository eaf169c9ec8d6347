package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"vmop/internal/spelling"
	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/prepare"
	"vmop/runner/prepare/images"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
	"vmop/vmtypes/policy"
)

// Limits for queries to the runners of many VMs.
const (
	queryTime  = 2 * time.Second // for each answer
	maxQueries = 8
)

// Layouts of a folder: NAME.yaml, or NAME/config.yaml.
const (
	suffix     = ".yaml"
	ownFolders = "config.yaml"
)

// List returns all VMs, sorted by name, including VMs with an invalid configuration. The error is about folders
// that can't be read; List returns it together with the VMs of the other folders.
func (inv *Inventory) List(ctx context.Context) ([]VM, error) {
	names, err := inv.Configured()
	vms := make([]VM, 0, len(names))
	for _, name := range names {
		if vm, ok := inv.readConfigured(name); ok { // otherwise it has just been deleted
			inv.decideSizes(ctx, &vm)
			vms = append(vms, vm)
		}
	}
	vms = inv.joinRunning(vms, func(config.Machine) bool { return true })
	inv.queryAll(ctx, vms)
	slices.SortStableFunc(vms, func(a, b VM) int { return strings.Compare(a.Name, b.Name) })
	return vms, errors.Join(err, ctx.Err())
}

// Names returns the names of all VMs, without asking the runners.
func (inv *Inventory) Names() []string {
	names, _ := inv.Configured() // List reports the error
	for _, m := range inv.runningMachines() {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Find returns the VM with a name. The error is ErrUnknown if it doesn't exist. Find returns an error instead of
// choosing between several running VMs with configurations from elsewhere.
func (inv *Inventory) Find(ctx context.Context, name string) (*VM, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var vms []VM
	if vm, ok := inv.readConfigured(name); ok {
		inv.decideSizes(ctx, &vm)
		vms = append(vms, vm)
	}
	vms = inv.joinRunning(vms, func(m config.Machine) bool { return m.Name == name })
	switch {
	case len(vms) == 0:
		return nil, inv.unknownName(name)
	case len(vms) > 1 && vms[0].Place == nil:
		dirs := make([]string, len(vms))
		for i := range vms {
			dirs[i] = vms[i].RuntimeDir
		}
		return nil, fmt.Errorf("%s is the name of %d running VMs, in %s", name, len(vms), strings.Join(dirs, " and "))
	}
	inv.queryAll(ctx, vms[:1])
	return &vms[0], ctx.Err()
}

// File returns the configuration file of a VM and its folder, without reading the file. The error is ErrUnknown
// if the file doesn't exist.
func (inv *Inventory) File(name string) (string, *Place, error) {
	if err := checkName(name); err != nil {
		return "", nil, err
	}
	files, places := inv.filesNamed(name)
	if len(files) == 0 {
		return "", nil, inv.unknownName(name)
	}
	return files[0], places[0], nil
}

func (inv *Inventory) unknownName(name string) error {
	hint := ""
	if near := spelling.Nearest(name, inv.Names()); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return fmt.Errorf("%s: %w%s", name, ErrUnknown, hint)
}

// checkName refuses names that can't name a VM, because they name files.
func checkName(name string) error {
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q %w: use letters, digits, . and -", name, ErrName)
	}
	return nil
}

// checkNewName refuses names that a new VM can't have, because units of systemd, sockets and other programs use
// them.
func checkNewName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(name) {
		return fmt.Errorf("%q %w: use letters, digits, ., _ and -, and first a letter or digit", name, ErrName)
	}
	return nil
}

// Configured returns the names of the VMs that are configured in the folders, with the same errors as List.
func (inv *Inventory) Configured() (names []string, err error) {
	for _, place := range inv.opts.Places {
		entries, e := os.ReadDir(place.Folder)
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("list the VMs in %s: %w", place.Folder, e))
		}
		for _, entry := range entries {
			if name, ok := nameOf(place.Folder, entry); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// nameOf returns the name of the VM that a folder's entry configures. It returns false for other entries:
// /etc/opt/vmrunner also contains config.yaml, a VM without a name, and the policy for VM types.
func nameOf(folder string, entry fs.DirEntry) (string, bool) {
	name, is := strings.CutSuffix(entry.Name(), suffix)
	switch {
	case strings.HasPrefix(name, "."), checkName(name) != nil:
		return "", false
	case is && !entry.IsDir():
		return name, !isReservedFile(filepath.Join(folder, entry.Name()))
	}
	_, err := os.Lstat(filepath.Join(folder, entry.Name(), ownFolders))
	return entry.Name(), err == nil
}

// isReservedFile reports whether a file with this path never configures a named VM.
func isReservedFile(file string) bool {
	return file == config.DefaultFile || file == policy.DefaultFile || filepath.Base(file) == images.ListFile
}

// filesNamed returns the existing configurations with a name, and their places.
func (inv *Inventory) filesNamed(name string) (files []string, places []*Place) {
	for i := range inv.opts.Places {
		place := &inv.opts.Places[i]
		for _, file := range []string{
			filepath.Join(place.Folder, name+suffix), filepath.Join(place.Folder, name, ownFolders),
		} {
			if info, err := os.Lstat(file); err == nil && !info.IsDir() && !isReservedFile(file) {
				files, places = append(files, file), append(places, place)
			}
		}
	}
	return files, places
}

// readConfigured returns the VM that is configured with a name, if it exists.
func (inv *Inventory) readConfigured(name string) (VM, bool) {
	files, places := inv.filesNamed(name)
	if len(files) == 0 {
		return VM{}, false
	}
	vm := VM{Name: name, File: files[0], Place: places[0], Ignored: files[1:], State: vmstatus.StateStopped}
	cfg, _, err := config.Load(vm.File)
	if err == nil {
		err = isNamed(cfg, name)
	}
	if err != nil {
		vm.Fault = err
		cfg = &config.Config{VM: vmspec.Spec{Name: name}} // its directories are likely to be the usual ones
	} else {
		vm.Config = cfg
	}
	vm.Fault = errors.Join(vm.Fault, vm.locateVM(cfg))
	return vm, true
}

// decideSizes asks the type of a VM for sizes.
func (inv *Inventory) decideSizes(ctx context.Context, vm *VM) {
	if vm.Config != nil {
		vm.sizes = prepare.Sizes(ctx, vm.Config, vm.File, inv.opts.Prepare.VMTypes)
	}
}

// isNamed checks that a configuration has the VM's name.
func isNamed(cfg *config.Config, name string) error {
	if cfg.VM.Name == name {
		return nil
	}
	return cfg.Locate([]vmspec.Fault{{
		Path: "vm.name", Message: fmt.Sprintf("is %q, but the file belongs to the VM %q", cfg.VM.Name, name),
		Hint: "rename one of them",
	}})
}

// runningMachines returns the running VMs of this user.
func (inv *Inventory) runningMachines() []config.Machine {
	return config.Machines(inv.opts.Env, control.SocketName)
}

// joinRunning sets the runtime directories of configured, running VMs, and appends running VMs without a configuration
// in a folder.
func (inv *Inventory) joinRunning(vms []VM, wanted func(config.Machine) bool) []VM {
	known := len(vms)
	for _, m := range inv.runningMachines() {
		if !wanted(m) {
			continue
		}
		file := ""
		if r, there, err := record.Read(m.RuntimeDir); err == nil && there {
			file = r.ConfigFile
		}
		at := slices.IndexFunc(vms[:known], func(vm VM) bool {
			return vm.Name == m.Name && (file == "" || vm.File == file || vm.RuntimeDir == m.RuntimeDir)
		})
		if at >= 0 {
			vms[at].RuntimeDir = m.RuntimeDir
			continue
		}
		vms = append(vms, VM{Name: m.Name, File: file, RuntimeDir: m.RuntimeDir, State: vmstatus.StateStopped})
	}
	return vms
}

// queryAll adds the reports of runners and systemd to VMs. It takes at most queryTime for each VM.
func (inv *Inventory) queryAll(ctx context.Context, vms []VM) {
	var requests errgroup.Group
	requests.SetLimit(maxQueries)
	for i := range vms {
		requests.Go(func() error {
			vms[i].queryRunner(ctx)
			return nil
		})
	}
	requests.Go(func() error {
		querySystemd(ctx, vms)
		return nil
	})
	_ = requests.Wait() // no member returns an error
	for i := range vms {
		if s := vms[i].Service.stateOfVM(); vms[i].State == vmstatus.StateStopped && s != "" {
			vms[i].State = s
		}
		vms[i].lastStart()
	}
}

// queryRunner adds the report of the VM's runner.
func (vm *VM) queryRunner(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	client, err := vm.Dial(ctx)
	if err == nil {
		s, e := client.Status(ctx)
		if err = e; err == nil {
			vm.State, vm.Status, vm.Problem = s.State, &s, lostText(&s)
			return
		}
	}
	vm.noteUnanswered(err)
}

// lostText returns a runner's messages about lost directories.
func lostText(s *status.Status) string {
	var texts []string
	for _, p := range s.Problems {
		if p.Reason == vmstatus.ReasonDirectoryLost {
			texts = append(texts, p.Message)
		}
	}
	return strings.Join(texts, "; ")
}
