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
	"vmop/runner/config"
	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// Options are the inputs for the preparation of a VM.
type Options struct {
	// ConfigFile is the path of the configuration.
	ConfigFile string
	// VMTypes is the folder of custom VM types; empty if there is no folder.
	VMTypes string
	// Policy limits launch plans; nil allows everything.
	Policy *policy.Policy
	// DisplaySecret is the name of the Secret with the display's password. The VM isn't started without it. ""
	// means that no Secret is required.
	DisplaySecret string
}

// A VM is a virtual machine that is ready to be started.
type VM struct {
	Config *config.Config
	// File is the absolute path of the configuration file.
	File string
	// Spec is the vm section with defaults, absolute paths and uuid.
	Spec vmspec.Spec
	// Plan is the launch plan.
	Plan *plan.Plan
	// Sandbox are the arguments that precede the plan's on QEMU's command line; nil if the policy requires no
	// sandbox.
	Sandbox []string
	// DataDir and RuntimeDir are absolute.
	DataDir, RuntimeDir string
	// Warnings about the configuration, for people.
	Warnings []string
	// Facts are the facts about this computer that were used for the plan.
	Facts HostFacts
	// sizes are the sizes that the type decides.
	sizes vmspec.Sizes
	// Plugged are the serial numbers of disks that are in the configuration but not in the plan: a guest from
	// another runner had them attached.
	Plugged []string
	// Networks are all networks of the configuration, with defaults. Spec and the plan omit the networks with cards
	// that are plugged into the running machine.
	Networks []vmspec.Network
	fixed    []int // the indices in Networks of Spec.Network
	matches  []int // the indices of Networks in a running machine's Spec.Network, or -1; nil for the machine itself
	// NICs are the cards of the omitted networks.
	NICs []reconcile.Card
	// Places are the cards that are plugged in when the VM starts. The plan omits them.
	Places []CardPlace
	// whole is the plan with all Networks, which decides what QEMU may use; nil if it is Plan.
	whole *plan.Plan
	// Unpluggable are the reasons why new networks need a restart, by their index in Networks.
	Unpluggable map[int]string
	// Pin contains the type that has computed the plan.
	Pin *Pin
	// Seed is for the cloud-init image; nil without cloud-init.
	Seed *cloudinit.Seed
	// Answers are the answer files of Windows Setup, for an image; nil without answer files.
	Answers []cloudinit.File
	// Password is the password of the displays; nil if no password is configured.
	Password *reconcile.Password
	// Protected reports whether the displays have a password from the start.
	Protected bool
	// Held is how the kernel confines the processes. It is nil if they aren't running, or if an earlier version
	// has started them.
	Held *status.Confinement
	// Misplaced are the reasons why processes don't run on the CPUs that the plan assigns to them.
	Misplaced []string
}

// Plan reads the configuration and computes the plan. It changes nothing on the computer: a VM that was never run
// has no uuid yet, and gets a placeholder. If only the plan fails, Plan returns the VM together with the error.
func Plan(ctx context.Context, opts Options) (*VM, error) {
	vm, err := Open(opts.ConfigFile)
	if err != nil {
		return nil, err
	}
	return vm, vm.Complete(ctx, opts, false)
}

// Open reads the configuration, with settings that change it (see config.Load), and determines the VM's
// directories.
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

// New returns what follows from a configuration alone, without reading the files that it names. Relative paths
// start at the folder of file.
func New(cfg *config.Config, file string) (*VM, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("folder of %s: %w", file, err)
	}
	vm := &VM{Config: cfg, File: file}
	if cfg.CloudInit != nil {
		if err := vm.renderSeed(cfg.CloudInit); err != nil {
			return nil, err
		}
	}
	env := config.HostEnv()
	if vm.DataDir, err = cfg.DataDirectory(env); err != nil {
		return nil, err
	}
	vm.RuntimeDir = cfg.RuntimeDirectory(env)
	vm.DataDir, vm.RuntimeDir = vmspec.Within(vm.configDir(), vm.DataDir), vmspec.Within(vm.configDir(), vm.RuntimeDir)
	return vm, nil
}

// configDir returns the folder for relative paths of the configuration.
func (vm *VM) configDir() string { return filepath.Dir(vm.File) }

// Complete computes everything else. With keep, it stores a new uuid in the data directory.
func (vm *VM) Complete(ctx context.Context, opts Options, keep bool) error {
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	vmType, err := vm.openType(types, opts.VMTypes)
	if err != nil {
		return err
	}
	if err := vm.decideSizes(ctx, vmType); err != nil {
		return err
	}
	if vm.Places == nil {
		if vm.Places, err = ReadCards(vm.DataDir); err != nil {
			return err
		}
	}
	if err := vm.resolveSpec(vm.DataDir, keep); err != nil {
		return err
	}
	if err := vm.readSecrets(vm.configDir(), opts.DisplaySecret); err != nil {
		return err
	}
	if err := vm.refuseOpenDisplays(); err != nil {
		return err
	}
	if err := vm.launchPlan(ctx, vmType); err != nil {
		return err
	}
	if err := vm.planStartCards(ctx, vmType, opts); err != nil {
		return err
	}
	if err := vm.RefuseLinks(vm); err != nil {
		return err
	}
	if err := vm.keepsOwnFiles(); err != nil {
		return err
	}
	if err := HideSecrets(vm.Plan); err != nil {
		return err
	}
	if err := vm.Judge(ctx, opts, vm.Spec, vm.Plan); err != nil || opts.Policy == nil {
		return err
	}
	folder, err := TypeFolder(opts.VMTypes, vm.Config.VMType)
	vm.Sandbox = opts.Policy.Sandbox(folder)
	return err
}

// KeepAll stores uuid, type and machine versions in the data directory, synced.
func (vm *VM) KeepAll() error {
	if err := config.KeepUUID(vm.DataDir, vm.Spec.UUID); err != nil {
		return err
	}
	if id := vm.Facts.GenerationID; id != nil && *id != "" {
		if err := KeepGeneration(vm.DataDir, *id); err != nil {
			return err
		}
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

// Again computes the plan of a VM's start again, from the type, facts and directories that are set.
func (vm *VM) Again(ctx context.Context) error {
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	vmType := types.AddKept(vm.Pin.Archive)
	if err := vm.decideSizes(ctx, vmType); err != nil {
		return err
	}
	if err := vm.resolveSpec(vm.DataDir, false); err != nil {
		return err
	}
	if err := vm.launchPlan(ctx, vmType); err != nil {
		return err
	}
	return vm.planWhole(ctx, vmType)
}

// Renewed returns the running VM according to another configuration, with the sizes that its own type decides for it.
// It doesn't compute the plan.
func (vm *VM) Renewed(ctx context.Context, cfg *config.Config) (*VM, error) {
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
	if vmtypes.MayDecideSizes(string(vm.Pin.Archive)) { // otherwise no process is necessary
		types := evaluate.NewGroup(ctx)
		defer types.Close()
		if err = next.decideSizes(ctx, types.AddKept(vm.Pin.Archive)); err != nil {
			return nil, err
		}
	}
	if err = next.resolveSpec(vm.DataDir, false); err != nil {
		return nil, err
	}
	if err = next.planCards(ctx, vm); err != nil {
		return nil, err
	}
	return next, next.readSecrets(vm.configDir(), "") // without a password, the old password stays valid
}

// resolveSpec sets Spec: the vm section with all values that depend on this host, such as uuid, absolute paths and
// the type of resources. Paths are relative to the folder of the configuration file. The uuid is the uuid of
// dataDir.
func (vm *VM) resolveSpec(dataDir string, keep bool) (err error) {
	spec := vm.Config.VM
	if spec.UUID, err = config.EnsureUUID(dataDir, spec.UUID, keep); err != nil {
		return err
	}
	if spec.Network == nil && !vm.Facts.hasDefaultBridge() {
		spec.Network = []vmspec.Network{{Type: vmspec.NetworkUser}}
	}
	spec = spec.FillSizes(vm.sizes).WithDefaults().Within(vm.configDir())
	spec.Drives = slices.DeleteFunc(spec.Drives, func(d vmspec.Drive) bool {
		return d.NBD == nil && slices.Contains(vm.Plugged, d.Serial)
	})
	spec, faults := vmspec.ResolveResources(spec, vm.Facts.fileMode)
	vm.Spec = spec
	vm.takeOut(vm.placedNetworks(spec.Network))
	return vm.Config.Locate(faults)
}

// MissingFiles returns errors about missing files that a start needs. It omits the files in made, which are
// created earlier.
func (vm *VM) MissingFiles(made ...string) []vmspec.Fault {
	return vmspec.MissingFiles(vm.Spec, func(path string) (fs.FileMode, error) {
		if slices.Contains(made, path) {
			return 0, nil
		}
		if path == vm.DataDir || path == vm.RuntimeDir { // a start creates them
			return fs.ModeDir, nil
		}
		return fileMode(path)
	})
}

// Locate adds places in the configuration file to errors about fields that the type refuses. It returns other errors
// unchanged.
func (vm *VM) Locate(err error) error {
	var fields *vmtypes.FieldsError
	if errors.As(err, &fields) {
		return vm.Config.Locate(fields.Faults)
	}
	return err
}

// readSecrets reads the display password next to the configuration file. If secret isn't empty, the file comes
// from the Secret of that name.
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

// openType returns the VM's type, and sets Pin.
func (vm *VM) openType(types *evaluate.Group, vmTypes string) (vmType *evaluate.Member, err error) {
	if vm.Pin != nil { // set by another runner
		return types.AddKept(vm.Pin.Archive), nil
	}
	vm.Pin, vmType, err = loadPin(types, vmTypes, vm.DataDir, vm.Config.VMType, vm.Config.UpdateVMType)
	return vmType, err
}

// decideSizes asks the type for the sizes that the configuration leaves out.
func (vm *VM) decideSizes(ctx context.Context, vmType *evaluate.Member) (err error) {
	vm.sizes, err = vmType.Sizes(ctx, vm.Config.VM, vm.OptionFiles())
	return vm.Locate(err)
}

// keepsOwnFiles refuses a plan with a copy over a file that is reserved for the runner.
func (vm *VM) keepsOwnFiles() error {
	var faults []plan.Fault
	for _, f := range vm.Plan.Files {
		for _, name := range []string{f.To, f.To + KindSuffix} {
			if slices.Contains(vm.reservedPaths(), filepath.Clean(name)) {
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

// refuseOpenDisplays refuses displays that anybody could see, unless the configuration permits it.
func (vm *VM) refuseOpenDisplays() error {
	if vm.Protected || vm.Spec.Display == nil || vm.Spec.Display.WithoutPassword {
		return nil
	}
	var faults []vmspec.Fault
	for _, e := range vm.Spec.Display.Exposed() {
		faults = append(faults, vmspec.Fault{
			Path:    e.Path,
			Message: "has no password and listens on " + e.Address + ": anyone who can reach it could use the screen",
			Hint: "write a password to the file display-password next to the configuration, or set " + e.Path +
				".address: 127.0.0.1, or vm.display.withoutPassword: true",
		})
	}
	return vm.Config.Locate(faults)
}

// A Note is a fact about a VM that its user may not expect.
type Note struct {
	Text string
	// Warning marks a possible mistake.
	Warning bool
}

// Notes returns all notes about a VM.
func (vm *VM) Notes() (list []Note) {
	if why := vm.Emulated(); why != "" {
		list = append(list, Note{"without KVM the guest is slow; vm.accelerator: auto is tcg here, because " + why, false})
	}
	if open := vm.Unprotected(); open != "" {
		list = append(list, Note{open, true})
	}
	if vm.Config.VM.Network == nil && !vm.Facts.hasDefaultBridge() {
		list = append(list, Note{"vm.network is absent, and there is no bridge " + vmspec.DefaultBridge +
			": the network is of type user", false})
	}
	return list
}

// Unprotected lists the displays that have no password although people other than the users of this computer can
// reach them; empty if there are none.
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
	return "anyone who can reach it can use the screen without a password: " + strings.Join(list, ", ")
}

// Emulated returns the reason why the guest's CPUs are emulated although KVM was permitted; empty if they aren't.
func (vm *VM) Emulated() string {
	if vm.Spec.Accelerator != vmspec.AcceleratorAuto {
		return ""
	}
	return vm.Facts.NoKVM
}

// launchPlan calls the VM type.
func (vm *VM) launchPlan(ctx context.Context, vmType *evaluate.Member) (err error) {
	vm.Plan, err = vmType.Launch(ctx, vm.Spec, vm.Host())
	return vm.Locate(err)
}
