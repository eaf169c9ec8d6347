package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"vmop/cloudinit"
	"vmop/runner/config"
	"vmop/runner/notify"
	"vmop/runner/reconcile"
	"vmop/runner/status/k8s"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// evaluationTime bounds loading and calling a VM type.
const evaluationTime = 5 * time.Second

// Files in the runtime directory that are the runner's own.
const (
	monitorSocket  = "monitor.sock"
	cloudInitImage = "cloud-init.img"
)

// Options say where things are.
type Options struct {
	// ConfigFile is the path of the configuration.
	ConfigFile string
	// VMTypes is the folder of custom VM types; empty means none.
	VMTypes string
	// Policy says what launch plans may do; nil allows everything.
	Policy *policy.Policy
	// PolicyFault says why there is a policy, but it is not known: no VM is started,
	// and one that runs is adopted as it is.
	PolicyFault error
	// Log gets what happens; nil discards it.
	Log *slog.Logger
	// Version of the program, for the status.
	Version string
	// BootTime is how long QEMU may take from its start until the guest runs; 0
	// means a minute.
	BootTime time.Duration
	// Manager is the service manager that wants to know how the VM is; it may be
	// nil.
	Manager *notify.Manager
	// Reporter tells the cluster whose pod the runner is in how the VM is; nil means
	// that there is none. It reports on when Run has returned: the caller closes it.
	Reporter *k8s.Reporter
	// GracePeriod is when the runner is killed after a stop request: the guest gets
	// no more time than that leaves, whatever powerdownTimeout says. 0 means never.
	GracePeriod time.Duration
	// DisplaySecret is the name of the Secret that the display's password comes from: a
	// VM isn't started without it. "" means that there need be none.
	DisplaySecret string
	// Reread makes a VM that runs read its configuration again, where no
	// change is noticed. It may be nil.
	Reread <-chan struct{}
	// OnPaused is called when QEMU answers and the guest does not run yet:
	// the moment to attach to its consoles. It may be nil.
	OnPaused func(ctx context.Context, vm *VM) error
}

// A VM is a virtual machine that is ready to be started.
type VM struct {
	Config *config.Config
	// Spec is the vm section with defaults, absolute paths and uuid.
	Spec vmspec.Spec
	// Plan is what has to be done.
	Plan *plan.Plan
	// DataDir and RuntimeDir are absolute.
	DataDir, RuntimeDir string
	// Warnings about the configuration, for people.
	Warnings []string

	folder   string // of the configuration file, absolute
	facts    hostFacts
	pin      *pin
	seed     *cloudinit.Seed // nil: no cloud-init
	password *reconcile.Password
	// protected says that the displays have a password from the start on.
	protected bool
}

// Prepare reads the configuration and computes the plan. It changes nothing: a
// VM that was never run has no uuid yet, and gets a placeholder.
func Prepare(ctx context.Context, opts Options) (*VM, error) {
	vm, err := open(opts.ConfigFile)
	if err != nil {
		return nil, err
	}
	return vm, vm.plan(ctx, opts, false)
}

// open reads the configuration and finds out where the VM lives.
func open(file string, settings ...string) (*VM, error) {
	cfg, warnings, err := config.Load(file, settings...)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("folder of %s: %w", file, err)
	}
	vm, err := newVM(cfg, folder)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		vm.Warnings = append(vm.Warnings, w.String())
	}
	return vm, nil
}

// newVM returns what follows from a configuration alone; its relative paths
// begin at folder.
func newVM(cfg *config.Config, folder string) (*VM, error) {
	vm := &VM{Config: cfg, folder: folder}
	if cfg.CloudInit != nil {
		seed, err := cfg.CloudInit.Seed(cfg.VM.Name)
		if err != nil {
			return nil, err
		}
		vm.seed = &seed
	}
	env := config.HostEnv()
	var err error
	if vm.DataDir, err = cfg.DataDirectory(env); err != nil {
		return nil, err
	}
	vm.RuntimeDir = cfg.RuntimeDirectory(env)
	vm.DataDir, vm.RuntimeDir = vmspec.Within(folder, vm.DataDir), vmspec.Within(folder, vm.RuntimeDir)
	return vm, nil
}

// plan computes everything else. With keep set, a new uuid is kept in the data
// directory.
func (vm *VM) plan(ctx context.Context, opts Options, keep bool) (err error) {
	if err = vm.resolve(vm.DataDir, keep); err != nil {
		return err
	}
	if err := vm.readSecrets(vm.folder, opts.DisplaySecret); err != nil {
		return err
	}
	if err := vm.evaluate(ctx, opts.VMTypes); err != nil {
		return err
	}
	return vm.judge(opts.Policy, opts.VMTypes, vm.Spec, vm.Plan)
}

// resolve makes Spec: the vm section with everything filled in that depends on
// this host: uuid, absolute paths, what a resource is. Paths are relative to
// the folder of the configuration file. The uuid is that of dataDir.
func (vm *VM) resolve(dataDir string, keep bool) (err error) {
	spec := vm.Config.VM
	if spec.UUID, err = config.EnsureUUID(dataDir, spec.UUID, keep); err != nil {
		return err
	}
	spec = spec.WithDefaults().Within(vm.folder)
	spec, faults := vmspec.ResolveResources(spec, vm.facts.mode)
	vm.Spec = spec
	return vm.Config.Locate(faults)
}

// locate returns faults of the options at their places in the configuration file,
// and any other error as it is.
func (vm *VM) locate(err error) error {
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
	vm.password, vm.protected = &reconcile.Password{Text: password, Expiry: expiry}, true
	return nil
}

// evaluate loads the VM type and calls it.
func (vm *VM) evaluate(ctx context.Context, vmTypes string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, evaluationTime, fmt.Errorf("a VM type has %s", evaluationTime))
	defer cancel()
	library, err := vmtypes.Open(vmTypes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, library.Close()) }()
	vm.pin, err = loadPin(ctx, library, vm.DataDir, vm.Config.VMType, vm.Config.UpdateVMType)
	if err != nil {
		return err
	}
	return vm.launch(ctx)
}

// Emulated says why the guest's code is emulated though KVM was welcome; empty if it
// isn't.
func (vm *VM) Emulated() string {
	if vm.Spec.Accelerator != vmspec.AcceleratorAuto {
		return ""
	}
	return vm.facts.NoKVM
}

// launch calls the VM type.
func (vm *VM) launch(ctx context.Context) (err error) {
	vm.Plan, err = vm.pin.vmType.Launch(ctx, vm.Spec, vm.host())
	return vm.locate(err)
}
