package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"vmop/cloudinit"
	"vmop/outbound"
	"vmop/runner/config"
	"vmop/runner/reconcile"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// Options say by what a VM is prepared.
type Options struct {
	// ConfigFile is the path of the configuration.
	ConfigFile string
	// VMTypes is the folder of custom VM types; empty means none.
	VMTypes string
	// Policy says what launch plans may do; nil allows everything.
	Policy *policy.Policy
	// DisplaySecret is the name of the Secret that the display's password comes from: a
	// VM isn't started without it. "" means that there need be none.
	DisplaySecret string
}

// A VM is a virtual machine that is ready to be started.
type VM struct {
	Config *config.Config
	// File is the path of the configuration file, absolute.
	File string
	// Spec is the vm section with defaults, absolute paths and uuid.
	Spec vmspec.Spec
	// Plan is what has to be done.
	Plan *plan.Plan
	// Sandbox are the words that come before those of the plan on QEMU's command line; nil: the policy wants none.
	Sandbox []string
	// DataDir and RuntimeDir are absolute.
	DataDir, RuntimeDir string
	// Warnings about the configuration, for people.
	Warnings []string
	// Facts are what the plan was made from that this computer has said.
	Facts HostFacts
	// Plugged are the serial numbers of disks that are in the configuration, and not in the plan: a guest that has come
	// from another runner had them attached.
	Plugged []string
	// Pin is the type that the plan was made by.
	Pin *Pin
	// Seed is for the cloud-init image; nil: no cloud-init.
	Seed *cloudinit.Seed
	// Answers are the answer files of Windows Setup, for an image; nil: none.
	Answers []cloudinit.File
	// Password is that of the displays; nil: none is configured.
	Password *reconcile.Password
	// Protected says that the displays have a password from the start on.
	Protected bool
	// Held is what the kernel holds the processes to; nil if they don't run, or if an
	// earlier version has started them.
	Held *status.Confinement
	// Misplaced says of processes why they don't run on the CPUs that the plan has for
	// them.
	Misplaced []string
}

// Plan reads the configuration and computes the plan. It changes nothing: a VM that
// was never run has no uuid yet, and gets a placeholder. There is a VM also with an
// error of its plan.
func Plan(ctx context.Context, opts Options) (*VM, error) {
	vm, err := Open(opts.ConfigFile)
	if err != nil {
		return nil, err
	}
	return vm, vm.Complete(ctx, opts, false)
}

// Open reads the configuration, with settings that change it (see config.Load), and
// finds out where the VM lives.
func Open(file string, settings ...string) (*VM, error) {
	cfg, warnings, err := config.Load(file, settings...)
	if err != nil {
		return nil, err
	}
	vm, err := New(cfg, file)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		vm.Warnings = append(vm.Warnings, w.String())
	}
	if err := vm.readData(); err != nil {
		return nil, err
	}
	return vm, nil
}

// New returns what follows from a configuration alone, without what it names; its
// relative paths begin at the folder of its file.
func New(cfg *config.Config, file string) (*VM, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("folder of %s: %w", file, err)
	}
	vm := &VM{Config: cfg, File: file}
	if cfg.CloudInit != nil {
		if err := vm.render(cfg.CloudInit); err != nil {
			return nil, err
		}
	}
	env := config.HostEnv()
	if vm.DataDir, err = cfg.DataDirectory(env); err != nil {
		return nil, err
	}
	vm.RuntimeDir = cfg.RuntimeDirectory(env)
	vm.DataDir, vm.RuntimeDir = vmspec.Within(vm.folder(), vm.DataDir), vmspec.Within(vm.folder(), vm.RuntimeDir)
	return vm, nil
}

// folder is where relative paths of the configuration begin.
func (vm *VM) folder() string { return filepath.Dir(vm.File) }

// Reach returns which addresses QEMU may reach for a URL of the configuration. A user who starts a VM on this computer
// may name a server on it. A user who defines a VM of a cluster may name neither the pod nor the node.
func (vm *VM) Reach(address string) outbound.Rule {
	if vm.Config.Resource != "" {
		return outbound.Rule{}
	}
	return outbound.NamedBy(address)
}

// Complete computes everything else. With keep set, a new uuid is kept in the data
// directory.
func (vm *VM) Complete(ctx context.Context, opts Options, keep bool) error {
	if err := vm.resolve(vm.DataDir, keep); err != nil {
		return err
	}
	if err := vm.readSecrets(vm.folder(), opts.DisplaySecret); err != nil {
		return err
	}
	if err := vm.protects(); err != nil {
		return err
	}
	if err := vm.evaluate(ctx, opts.VMTypes); err != nil {
		return err
	}
	if err := vm.keepsOwnFiles(); err != nil {
		return err
	}
	if err := vm.Judge(ctx, opts, vm.Spec, vm.Plan); err != nil || opts.Policy == nil {
		return err
	}
	folder, err := TypeFolder(opts.VMTypes, vm.Config.VMType)
	vm.Sandbox = opts.Policy.Sandbox(folder)
	return err
}

// KeepAll keeps uuid, type and machine versions in the data directory, synced.
func (vm *VM) KeepAll() error {
	if err := config.KeepUUID(vm.DataDir, vm.Spec.UUID); err != nil {
		return err
	}
	if err := vm.Pin.Keep(vm.DataDir); err != nil {
		return err
	}
	kept := Pin{Machines: map[string]string{}}
	for alias, version := range vm.Pin.Machines {
		if err := kept.KeepMachine(vm.DataDir, alias, version); err != nil {
			return err
		}
		kept.Machines[alias] = version
	}
	return nil
}

// Again computes the plan that a VM was started by, from the type, facts and
// directories that are set.
func (vm *VM) Again(ctx context.Context) error {
	if err := vm.resolve(vm.DataDir, false); err != nil {
		return err
	}
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	return vm.launch(ctx, types.AddKept(vm.Pin.Archive))
}

// Renewed returns the VM, which runs, as another configuration wants it. The plan is
// not computed.
func (vm *VM) Renewed(cfg *config.Config) (*VM, error) {
	next, err := New(cfg, vm.File)
	if err != nil {
		return nil, err
	}
	if cfg.VM.Name != vm.Config.VM.Name {
		const text = "is the VM's identity: it cannot change while the VM runs; stop the VM first"
		return nil, cfg.Locate([]vmspec.Fault{{Path: "vm.name", Message: text}})
	}
	next.Facts.Bridge = vm.Facts.Bridge
	if err = next.keepData(vm, next.readData()); err != nil {
		return nil, err
	}
	if err = next.resolve(vm.DataDir, false); err != nil {
		return nil, err
	}
	return next, next.readSecrets(vm.folder(), "") // without one, the old one holds
}

// resolve makes Spec: the vm section with everything filled in that depends on
// this host: uuid, absolute paths, what a resource is. Paths are relative to
// the folder of the configuration file. The uuid is that of dataDir.
func (vm *VM) resolve(dataDir string, keep bool) (err error) {
	spec := vm.Config.VM
	if spec.UUID, err = config.EnsureUUID(dataDir, spec.UUID, keep); err != nil {
		return err
	}
	if spec.Network == nil && !vm.Facts.bridge() {
		spec.Network = []vmspec.Network{{Type: vmspec.NetworkUser}}
	}
	spec = spec.WithDefaults().Within(vm.folder())
	spec.Drives = slices.DeleteFunc(spec.Drives, func(d vmspec.Drive) bool {
		return d.NBD == nil && slices.Contains(vm.Plugged, d.Serial)
	})
	spec, faults := vmspec.ResolveResources(spec, vm.Facts.mode)
	vm.Spec = spec
	return vm.Config.Locate(faults)
}

// MissingFiles are faults of the files that a start needs and that aren't there, without those that are made before.
func (vm *VM) MissingFiles(made ...string) []vmspec.Fault {
	return vmspec.MissingFiles(vm.Spec, func(path string) (fs.FileMode, error) {
		if slices.Contains(made, path) {
			return 0, nil
		}
		if path == vm.DataDir || path == vm.RuntimeDir { // a start makes them
			return fs.ModeDir, nil
		}
		return fileMode(path)
	})
}

// Locate returns faults of the options at their places in the configuration file,
// and any other error as it is.
func (vm *VM) Locate(err error) error {
	var options *vmtypes.OptionsError
	if errors.As(err, &options) {
		return vm.Config.Locate(options.Faults)
	}
	return err
}

// readSecrets reads the display password beside the configuration file, which comes
// from a Secret of that name, if it has one.
func (vm *VM) readSecrets(dir, secret string) error {
	password, ok, err := config.ReadDisplayPassword(dir)
	if err == nil && !ok && secret != "" {
		err = errors.New("it is gone, or has no key display-password, and without a password anybody could see the screen")
	}
	var expiry string
	if err == nil && ok {
		expiry, _, err = config.ReadPasswordExpiry(dir)
	}
	switch {
	case err != nil && secret != "":
		return fmt.Errorf("the display's password in Secret %s: %w", secret, err)
	case err != nil || !ok:
		return err
	}
	vm.Password, vm.Protected = &reconcile.Password{Text: password, Expiry: expiry}, true
	return nil
}

// evaluate loads the VM type and calls it.
func (vm *VM) evaluate(ctx context.Context, vmTypes string) (err error) {
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	if vm.Pin != nil { // another runner's
		return vm.launch(ctx, types.AddKept(vm.Pin.Archive))
	}
	var vmType *evaluate.Member
	vm.Pin, vmType, err = loadPin(types, vmTypes, vm.DataDir, vm.Config.VMType, vm.Config.UpdateVMType)
	if err != nil {
		return err
	}
	return vm.launch(ctx, vmType)
}

// keepsOwnFiles refuses a plan that copies over what the runner keeps.
func (vm *VM) keepsOwnFiles() error {
	var faults []plan.Fault
	for _, f := range vm.Plan.Files {
		for _, name := range []string{f.To, f.To + KindSuffix} {
			if slices.Contains(vm.reserved(), filepath.Clean(name)) {
				faults = append(faults, plan.Fault{
					Message: "copy_once: to = " + f.To + " is a file that the runner keeps itself; take another name",
					Origin:  f.Origin,
				})
			}
		}
	}
	if faults != nil {
		return &vmtypes.FaultsError{Type: vm.Plan.Type, Faults: faults}
	}
	return nil
}

// protects refuses displays that anybody would see, unless that was asked for.
func (vm *VM) protects() error {
	if vm.Protected || vm.Spec.Display == nil || vm.Spec.Display.WithoutPassword {
		return nil
	}
	var faults []vmspec.Fault
	for _, e := range vm.Spec.Display.Exposed() {
		faults = append(faults, vmspec.Fault{
			Path:    e.Path,
			Message: "has no password and listens on " + e.Address + ": whoever reaches that could use the screen",
			Hint: "write a password to the file display-password beside the configuration, or set " + e.Path +
				".address: 127.0.0.1, or vm.display.withoutPassword: true",
		})
	}
	return vm.Config.Locate(faults)
}

// A Note is what a user may not expect of a VM that starts.
type Note struct {
	Text string
	// Warning: it may be a mistake.
	Warning bool
}

// Notes returns all of them.
func (vm *VM) Notes() (list []Note) {
	if why := vm.Emulated(); why != "" {
		list = append(list, Note{"without KVM the guest is slow; vm.accelerator: auto is tcg here, because " + why, false})
	}
	if open := vm.Unprotected(); open != "" {
		list = append(list, Note{open, true})
	}
	if vm.Config.VM.Network == nil && !vm.Facts.bridge() {
		list = append(list, Note{"vm.network is absent, and there is no bridge " + vmspec.DefaultBridge +
			": the network is of type user", false})
	}
	return list
}

// Unprotected says which displays have no password though others than the users of this
// computer reach them; empty if there are none.
func (vm *VM) Unprotected() string {
	if vm.Protected {
		return ""
	}
	var list []string
	for _, e := range vm.Spec.Display.Exposed() {
		list = append(list, e.Path+" on "+e.Address)
	}
	if list == nil {
		return ""
	}
	return "whoever reaches it uses the screen without a password: " + strings.Join(list, ", ")
}

// Emulated says why the guest's code is emulated though KVM was welcome; empty if it
// isn't.
func (vm *VM) Emulated() string {
	if vm.Spec.Accelerator != vmspec.AcceleratorAuto {
		return ""
	}
	return vm.Facts.NoKVM
}

// launch calls the VM type.
func (vm *VM) launch(ctx context.Context, vmType *evaluate.Member) (err error) {
	vm.Plan, err = vmType.Launch(ctx, vm.Spec, vm.Host())
	return vm.Locate(err)
}
