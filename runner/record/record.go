package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"vmop/durable"
	"vmop/process"
	"vmop/regular"
	"vmop/runner/config"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// version changes when an older runner's record can't be used any more.
const version = 1

// A Machine is what a running machine consists of, and what its plan was
// computed from: the plan itself is computed again. It is written before the
// guest runs, and changed only where a helper was started again.
type Machine struct {
	Version int          `json:"version"`
	QEMU    process.ID   `json:"qemu"`
	Helpers []process.ID `json:"helpers,omitempty"` // in the plan's order
	Began   time.Time    `json:"began"`

	ConfigFile string `json:"configFile"`
	Config     string `json:"config"` // its text
	DataDir    string `json:"dataDir"`
	UUID       string `json:"uuid"`
	// VMType is the archive of the type in the record of an older runner, which made
	// no file of it.
	VMType string `json:"vmType,omitempty"`
	// Unpinned: the type isn't in the data directory yet.
	Unpinned bool              `json:"unpinned,omitempty"`
	Machines map[string]string `json:"machines,omitempty"`
	Host     prepare.HostFacts `json:"host"`
	// Plugged are the serial numbers of disks of the configuration that the plan leaves out.
	Plugged   []string `json:"plugged,omitempty"`
	Protected bool     `json:"protected"`
	// Held is what the kernel holds the processes to.
	Held *status.Confinement `json:"held,omitempty"`
	// Misplaced says why processes don't run on the CPUs that the plan has for them.
	Misplaced []string `json:"misplaced,omitempty"`
}

// Of returns the record of a VM whose guest is about to run; its processes are still
// to be noted. Without a plan the VM's type is, too.
func Of(vm *prepare.VM, began time.Time) Machine {
	r := Machine{
		Version: version, Began: began,
		ConfigFile: vm.File, Config: string(vm.Config.Text()), DataDir: vm.DataDir, UUID: vm.Spec.UUID,
		Host: vm.Facts, Protected: vm.Protected, Held: vm.Held, Misplaced: vm.Misplaced,
		Plugged: vm.Plugged,
	}
	if vm.Pin != nil {
		r.Unpinned, r.Machines = !vm.Pin.Kept, vm.Pin.Machines
	}
	return r
}

// WriteType writes the part of the record that is known while QEMU is coming up.
func WriteType(vm *prepare.VM) error {
	return durable.Write(filepath.Join(vm.RuntimeDir, prepare.TypeFile), vm.Pin.Archive, 0o600, durable.Volatile)
}

// Write writes the record into the runtime directory; from now on the machine is
// carried on by another runner if this one is killed.
func (r Machine) Write(runtimeDir string) error {
	if err := writeJSON(filepath.Join(runtimeDir, prepare.RecordFile), r, durable.Volatile); err != nil {
		return err
	}
	return link(r.DataDir, runtimeDir) // anew: see LinkedSince
}

// Restarted notes that a helper of a VM that runs is another process now.
func Restarted(vm *prepare.VM, helper string, id process.ID) error {
	r, there, err := Read(vm.RuntimeDir)
	if err != nil || !there {
		return err
	}
	i := slices.IndexFunc(vm.Plan.Helpers, func(h plan.Process) bool { return h.Name == helper })
	r.Helpers[i] = id
	return writeJSON(filepath.Join(vm.RuntimeDir, prepare.RecordFile), r, durable.Volatile)
}

// Read reads the record in a runtime directory, and reports whether there is one.
func Read(runtimeDir string) (r Machine, there bool, err error) {
	there, err = readJSON(filepath.Join(runtimeDir, prepare.RecordFile), &r)
	return r, there, err
}

// CheckVersion returns an error if this program can't use the record, which is in a
// runtime directory.
func (r Machine) CheckVersion(runtimeDir string) error {
	if r.Version == version {
		return nil
	}
	return fmt.Errorf("the VM was started by another version of this program: %s has version %d, want %d; "+
		"stop the VM with that version", filepath.Join(runtimeDir, prepare.RecordFile), r.Version, version)
}

// WriteProgress writes how far this runner has come.
func WriteProgress(runtimeDir string, p machine.Progress) error {
	return writeJSON(filepath.Join(runtimeDir, prepare.ProgressFile), p, durable.Volatile)
}

// ReadProgress reads how far the earlier runner had come; without a file p stays as it
// is.
func ReadProgress(runtimeDir string, p *machine.Progress) error {
	_, err := readJSON(filepath.Join(runtimeDir, prepare.ProgressFile), p)
	return err
}

// WriteConfig notes the configuration in force.
func WriteConfig(runtimeDir string, cfg *config.Config) error {
	return durable.Write(filepath.Join(runtimeDir, prepare.ConfigFile), cfg.Text(), 0o600, durable.Volatile)
}

// ReadConfig returns the configuration that was in force last.
func ReadConfig(vm *prepare.VM) *config.Config {
	text, err := regular.ReadFile(filepath.Join(vm.RuntimeDir, prepare.ConfigFile), prepare.LargestRecord)
	if err != nil { // there was no other than the first
		return vm.Config
	}
	cfg, _, err := config.Parse(vm.File, text)
	if err != nil {
		return vm.Config
	}
	return cfg
}

func writeJSON(path string, value any, lifetime durable.Lifetime) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.Write(path, append(data, '\n'), 0o600, lifetime)
}

// readJSON returns false if there is no such file.
func readJSON(path string, into any) (bool, error) {
	data, err := regular.ReadFile(path, prepare.LargestRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		err = decoder.Decode(into)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// VM makes the VM anew that the record is about, which is in a runtime directory,
// with the plan that it was started by.
func (r *Machine) VM(ctx context.Context, runtimeDir string) (*prepare.VM, error) {
	cfg, _, err := config.Parse(r.ConfigFile, []byte(r.Config))
	if err != nil {
		return nil, err
	}
	cfg.VM.UUID = r.UUID // its file may be another now
	vm, err := prepare.New(cfg, r.ConfigFile)
	if err != nil {
		return nil, err
	}
	vm.DataDir, vm.RuntimeDir, vm.Facts, vm.Protected = r.DataDir, runtimeDir, r.Host, r.Protected
	vm.Held, vm.Misplaced, vm.Plugged = r.Held, r.Misplaced, r.Plugged
	if vm.Pin, err = r.pin(runtimeDir); err != nil {
		return nil, err
	}
	return vm, vm.Again(ctx)
}

// pin returns the type of the machine.
func (r *Machine) pin(runtimeDir string) (*prepare.Pin, error) {
	p := &prepare.Pin{Machines: r.Machines, Archive: []byte(r.VMType), Kept: !r.Unpinned}
	if r.VMType == "" {
		var err error
		p.Archive, err = regular.ReadFile(filepath.Join(runtimeDir, prepare.TypeFile), prepare.LargestRecord)
		if err != nil {
			return nil, fmt.Errorf("read the type of the VM that runs: %w", err)
		}
	}
	return p, nil
}
