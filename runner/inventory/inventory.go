package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// A Place is a folder with the configurations of VMs.
type Place struct {
	// Folder is the absolute path. The folder need not exist.
	Folder string
	// System reports whether the VMs belong to the computer. Their services are managed by systemd's system
	// manager; other services by the user's manager.
	System bool
	// Detached means that the VMs are never services: systemd's units look for a name in the usual folders, and
	// would start another VM.
	Detached bool
	// Environment sets the directories of the VMs of this place, as NAME=VALUE. It takes precedence over the
	// environment of this process.
	Environment []string
	// Env is the environment with these variables.
	Env config.Env
}

// systemFolder contains the configurations of the computer's VMs.
const systemFolder = "/etc/opt/vmrunner"

// Places returns the folder of the user, if there is a home, and the folder of the computer.
func Places(env config.Env) []Place {
	variables := map[string]string{
		"XDG_CONFIG_HOME": filepath.Dir(systemFolder), "XDG_DATA_HOME": "/var/lib", "XDG_RUNTIME_DIR": "/run",
		"XDG_CACHE_HOME": "/var/cache",
	}
	system := Place{Folder: systemFolder, System: true, Env: env}
	system.Env.Getenv = func(name string) string {
		if value, ok := variables[name]; ok {
			return value
		}
		return env.Getenv(name)
	}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"} {
		system.Environment = append(system.Environment, name+"="+variables[name])
	}
	folder := env.Folder()
	if folder == "" || folder == systemFolder {
		return []Place{system}
	}
	return []Place{{Folder: folder, Env: env}, system}
}

// Options configure an Inventory.
type Options struct {
	// Env is the environment for finding running VMs.
	Env config.Env
	// Places are the folders; the first with a given name is used.
	Places []Place
	// Prepare selects the VM types for checking configurations. Its ConfigFile is not used.
	Prepare prepare.Options
	// Program is the path of vmrunner, which starts VMs. Arguments are appended to "run -c FILE".
	Program   string
	Arguments []string
	// Log receives warnings about paths that can't be watched.
	Log *slog.Logger
}

// An Inventory manages the VMs of this computer.
type Inventory struct{ opts Options }

// New returns an inventory. It reads files only when methods are called.
func New(opts Options) *Inventory { return &Inventory{opts: opts} }

// State shows whether a VM is running: the state of its runner (vmstatus.State), StateStopped without a runner,
// or one of the states below.
type State = vmstatus.State

// States of VMs without a runner that answers.
const (
	// StateNoRunner: QEMU is running, but its runner was killed. Start starts another runner.
	StateNoRunner State = "NoRunner"
	// StateNoAnswer: the runner was paused, or is overloaded.
	StateNoAnswer State = "NoAnswer"
	// StateActive: systemd reports that the VM is running; its runner belongs to another user.
	StateActive State = "Active"
	// StateFailed: the last start has failed, or systemd reports a failure of the VM's service.
	StateFailed State = "Failed"
)

// VM is a snapshot of a VM of this computer.
type VM struct {
	// Name is the name of the configuration file and the running VM.
	Name string
	// File is the path of the configuration; empty if it isn't known.
	File string
	// Place is the folder of File. It is nil if a running VM has a configuration outside of these folders.
	Place *Place
	// Config is the content of File; nil if Fault is set, or without a Place. Its cloud-init data may contain
	// secrets.
	Config *config.Config
	// sizes are the sizes that the type decides for Config.
	sizes vmspec.Sizes
	// Fault is why File can't be used, usually of type yamlfile.Faults.
	Fault error
	// Ignored are more files with this name, which are not used.
	Ignored []string
	// DataDir and RuntimeDir are absolute; empty if they aren't known.
	DataDir, RuntimeDir string

	State State
	// Status is the runner's report; nil if no runner answers. Problem is the reason why the runner of an
	// existing machine doesn't answer, or a lost directory of the VM.
	Status  *status.Status
	Problem string
	// Ended is how the last run of a stopped VM ended; nil if it isn't known.
	Ended *record.End
	lost  bool // running without a runner and its data directory
	// Service is what systemd knows about the VM.
	Service Service
}

// Spec returns the vm section of Config, which must not be nil, with its defaults.
func (vm *VM) Spec() vmspec.Spec { return vm.Config.VM.FillSizes(vm.sizes).WithDefaults() }

// Running reports whether the VM is running, as far as known.
func (vm *VM) Running() bool { return vm.State != vmstatus.StateStopped && vm.State != StateFailed }

// Dial connects to the VM's runner. The error is control.ErrNotRunning if there is no runner.
func (vm *VM) Dial(ctx context.Context) (*control.Client, error) {
	if vm.RuntimeDir == "" {
		return nil, fmt.Errorf("%s: %w", vm.Name, control.ErrNotRunning)
	}
	return control.Dial(ctx, filepath.Join(vm.RuntimeDir, control.SocketName))
}

// LogFile returns the path of the log of the VM's runner, if it was started without systemd.
func (vm *VM) LogFile() string { return filepath.Join(vm.DataDir, prepare.LogFile) }

// Errors of actions.
var (
	// ErrUnknown: no VM has this name.
	ErrUnknown = errors.New("there is no such VM")
	// ErrRunning: the action requires a stopped VM.
	ErrRunning = errors.New("the VM is running")
	// ErrName: the name isn't valid for a VM.
	ErrName = errors.New("is not a valid VM name")
	// ErrExists: a VM with this name exists.
	ErrExists = errors.New("there is a VM of this name")
)

// fileMode is the mode of a new configuration, because cloud-init data may be secret.
const fileMode os.FileMode = 0o600
