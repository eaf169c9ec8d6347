package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/prepare"
	"vmop/runner/record"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// A Place is a folder in which VMs are configured.
type Place struct {
	// Folder is its path, absolute. It need not exist.
	Folder string
	// System says that the VMs are the computer's, and that their services belong to
	// systemd's system manager; else to the user's.
	System bool
	// Detached says that the VMs are never services: systemd's units look for a name in the
	// usual folders, and would start another VM.
	Detached bool
	// Environment is where the VMs of this place have their directories, as NAME=VALUE;
	// it takes precedence over that of this process.
	Environment []string
	// Env is the environment with these variables.
	Env config.Env
}

// SystemFolder is where the VMs of the computer are configured.
const SystemFolder = "/etc/opt/vmrunner"

// Places returns the folder of the user, unless there is no home, and that of the
// computer.
func Places(env config.Env) []Place {
	variables := map[string]string{
		"XDG_CONFIG_HOME": filepath.Dir(SystemFolder), "XDG_DATA_HOME": "/var/lib", "XDG_RUNTIME_DIR": "/run",
		"XDG_CACHE_HOME": "/var/cache",
	}
	system := Place{Folder: SystemFolder, System: true, Env: env}
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
	if folder == "" || folder == SystemFolder {
		return []Place{system}
	}
	return []Place{{Folder: folder, Env: env}, system}
}

// Options configure an Inventory.
type Options struct {
	// Env is the environment by which VMs are found that run.
	Env config.Env
	// Places are the folders; the first that has a name counts.
	Places []Place
	// Prepare says by what VM types configurations are checked; its ConfigFile is not used.
	Prepare prepare.Options
	// Program is the path of vmrunner, by which VMs are started, and Arguments are
	// given to it after "run -c FILE".
	Program   string
	Arguments []string
	// Log gets warnings about what can't be watched.
	Log *slog.Logger
}

// An Inventory is the VMs of this computer.
type Inventory struct{ opts Options }

// New returns an inventory. Nothing is read before it is asked.
func New(opts Options) *Inventory { return &Inventory{opts: opts} }

// State is whether a VM runs: a state of its runner (vmstatus.State), StateStopped if
// it has none, or one of those below.
type State = vmstatus.State

// What there is in place of a runner that answers.
const (
	// StateNoRunner: QEMU runs, its runner was killed. Start starts another.
	StateNoRunner State = "NoRunner"
	// StateNoAnswer: the runner was paused, or is overloaded.
	StateNoAnswer State = "NoAnswer"
	// StateActive: systemd says that the VM runs; its runner is another user's.
	StateActive State = "Active"
	// StateFailed: the last start has failed, or systemd says so of the VM's service.
	StateFailed State = "Failed"
)

// VM is a VM of this computer, as it was when it was asked for.
type VM struct {
	// Name is that of the configuration file, and of the running VM.
	Name string
	// File is the path of the configuration; empty if it isn't known.
	File string
	// Place is the folder that File is in; nil: the VM runs by a configuration that is
	// in none of them.
	Place *Place
	// Config is what File says; nil if Fault says why not, or if there is no Place. It
	// may hold secrets, in its cloud-init data.
	Config *config.Config
	// Fault is why File can't be used: mostly of type yamlfile.Faults.
	Fault error
	// Ignored are further files of this name, which are not used.
	Ignored []string
	// DataDir and RuntimeDir are absolute; empty where they aren't known.
	DataDir, RuntimeDir string

	State State
	// Status is what the runner reports; nil if there is none that answers. Problem says
	// why, if something is there, or which directory of the VM is gone.
	Status  *status.Status
	Problem string
	// Ended is how the last run ended of a VM that isn't running; nil if it isn't known.
	Ended *record.End
	lost  bool // it runs without a runner and its data directory
	// Service is what systemd knows of the VM.
	Service Service
}

// Running reports whether the VM runs, as far as it is known.
func (vm *VM) Running() bool { return vm.State != vmstatus.StateStopped && vm.State != StateFailed }

// Dial connects to the VM's runner. The error is control.ErrNotRunning if there is none.
func (vm *VM) Dial(ctx context.Context) (*control.Client, error) {
	if vm.RuntimeDir == "" {
		return nil, fmt.Errorf("%s: %w", vm.Name, control.ErrNotRunning)
	}
	return control.Dial(ctx, filepath.Join(vm.RuntimeDir, control.SocketName))
}

// LogFile is the path of the log of the VM's runner, if it was started without systemd.
func (vm *VM) LogFile() string { return filepath.Join(vm.DataDir, prepare.LogFile) }

// Errors of actions.
var (
	// ErrUnknown: no VM has the name.
	ErrUnknown = errors.New("there is no such VM")
	// ErrRunning: the VM runs, and that is in the way.
	ErrRunning = errors.New("the VM is running")
	// ErrName: the name can't be that of a VM.
	ErrName = errors.New("is not a valid VM name")
	// ErrExists: there is a VM of the name.
	ErrExists = errors.New("there is a VM of this name")
)

// fileMode is that of a new configuration: cloud-init data may be secret.
const fileMode os.FileMode = 0o600
