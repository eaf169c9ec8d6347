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

	"vmop/internal/atomicfile"
	"vmop/internal/childprocess"
	"vmop/internal/readfile"
	"vmop/runner/config"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// version changes when an older runner's record can't be used any more.
const version = 1

// A Machine contains the parts of a running machine, and the inputs of its plan; the plan itself is computed
// again. It is written before the guest runs, and changed only when a helper is restarted.
type Machine struct {
	Version int               `json:"version"`
	QEMU    childprocess.ID   `json:"qemu"`
	Helpers []childprocess.ID `json:"helpers,omitempty"` // in the plan's order
	Began   time.Time         `json:"began"`

	ConfigFile string `json:"configFile"`
	Config     string `json:"config"` // its text
	DataDir    string `json:"dataDir"`
	UUID       string `json:"uuid"`
	// VMType is the archive of the type in the record of an older runner, which didn't store it in a file.
	VMType string `json:"vmType,omitempty"`
	// Unpinned means that the type isn't in the data directory yet.
	Unpinned bool              `json:"unpinned,omitempty"`
	Machines map[string]string `json:"machines,omitempty"`
	Host     prepare.HostFacts `json:"host"`
	// Plugged are the serial numbers of disks in the configuration that the plan omits.
	Plugged []string `json:"plugged,omitempty"`
	// Cards are the hardware addresses of networks in the configuration that the plan omits.
	Cards     []string `json:"cards,omitempty"`
	Protected bool     `json:"protected"`
	// Held is how the kernel confines the processes.
	Held *status.Confinement `json:"held,omitempty"`
	// Misplaced are the reasons why processes don't run on the CPUs that the plan assigns to them.
	Misplaced []string `json:"misplaced,omitempty"`
}

// Of returns the record of a VM with a guest that is about to run; the caller adds its processes. If the VM has
// no plan, the caller also adds its type.
func Of(vm *prepare.VM, began time.Time) Machine {
	r := Machine{
		Version: version, Began: began,
		ConfigFile: vm.File, Config: string(vm.Config.Text()), DataDir: vm.DataDir, UUID: vm.Spec.UUID,
		Host: vm.Facts, Protected: vm.Protected, Held: vm.Held, Misplaced: vm.Misplaced,
		Plugged: vm.Plugged, Cards: vm.PluggedMACs(),
	}
	if vm.Pin != nil {
		r.Unpinned, r.Machines = !vm.Pin.Kept, vm.Pin.Machines
	}
	return r
}

// WriteType writes the part of the record that is known while QEMU is starting.
func WriteType(vm *prepare.VM) error {
	return atomicfile.Write(filepath.Join(vm.RuntimeDir, prepare.TypeFile), vm.Pin.Archive, 0o600, atomicfile.Volatile)
}

// Write writes the record into the runtime directory. From now on, another runner takes over the machine if this
// runner is killed.
func (r Machine) Write(runtimeDir string) error {
	if err := writeJSON(filepath.Join(runtimeDir, prepare.RecordFile), r, atomicfile.Volatile); err != nil {
		return err
	}
	return linkDirectories(r.DataDir, runtimeDir) // renews the link's time: see LinkedSince
}

// Restarted records the new process of a restarted helper of a running VM.
func Restarted(vm *prepare.VM, helper string, id childprocess.ID) error {
	r, there, err := Read(vm.RuntimeDir)
	if err != nil || !there {
		return err
	}
	i := slices.IndexFunc(vm.Plan.Helpers, func(h plan.Process) bool { return h.Name == helper })
	r.Helpers[i] = id
	return writeJSON(filepath.Join(vm.RuntimeDir, prepare.RecordFile), r, atomicfile.Volatile)
}

// Read reads the record in a runtime directory, and reports whether it exists.
func Read(runtimeDir string) (r Machine, there bool, err error) {
	there, err = readJSON(filepath.Join(runtimeDir, prepare.RecordFile), &r)
	return r, there, err
}

// CheckVersion returns an error if this program can't use the record in a runtime directory.
func (r Machine) CheckVersion(runtimeDir string) error {
	if r.Version == version {
		return nil
	}
	return fmt.Errorf("the VM was started by another version of this program: %s has version %d, but must have %d; "+
		"stop the VM with that version", filepath.Join(runtimeDir, prepare.RecordFile), r.Version, version)
}

// WriteProgress writes this runner's progress.
func WriteProgress(runtimeDir string, p machine.Progress) error {
	return writeJSON(filepath.Join(runtimeDir, prepare.ProgressFile), p, atomicfile.Volatile)
}

// ReadProgress reads the earlier runner's progress. Without a file it leaves p unchanged.
func ReadProgress(runtimeDir string, p *machine.Progress) error {
	_, err := readJSON(filepath.Join(runtimeDir, prepare.ProgressFile), p)
	return err
}

// WriteConfig records the active configuration.
func WriteConfig(runtimeDir string, cfg *config.Config) error {
	return atomicfile.Write(filepath.Join(runtimeDir, prepare.ConfigFile), cfg.Text(), 0o600, atomicfile.Volatile)
}

// ReadConfig returns the last active configuration.
func ReadConfig(vm *prepare.VM) *config.Config {
	text, err := readfile.ReadFile(filepath.Join(vm.RuntimeDir, prepare.ConfigFile), prepare.LargestRecord)
	if err != nil { // only the first was ever active
		return vm.Config
	}
	cfg, _, err := config.Parse(vm.File, text)
	if err != nil {
		return vm.Config
	}
	return cfg
}

func writeJSON(path string, value any, lifetime atomicfile.Lifetime) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600, lifetime)
}

// readJSON returns false if there is no such file.
func readJSON(path string, into any) (bool, error) {
	data, err := readfile.ReadFile(path, prepare.LargestRecord)
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

// VM recreates the VM of the record in a runtime directory, with the plan of its start.
func (r *Machine) VM(ctx context.Context, runtimeDir string) (*prepare.VM, error) {
	cfg, _, err := config.Parse(r.ConfigFile, []byte(r.Config))
	if err != nil {
		return nil, err
	}
	cfg.VM.UUID = r.UUID // its file may have changed
	vm, err := prepare.New(cfg, r.ConfigFile)
	if err != nil {
		return nil, err
	}
	vm.DataDir, vm.RuntimeDir, vm.Facts, vm.Protected = r.DataDir, runtimeDir, r.Host, r.Protected
	vm.Held, vm.Misplaced, vm.Plugged = r.Held, r.Misplaced, r.Plugged
	vm.SetPluggedMACs(r.Cards)
	if vm.Pin, err = r.pinnedType(runtimeDir); err != nil {
		return nil, err
	}
	return vm, vm.Again(ctx)
}

// pinnedType returns the type of the machine.
func (r *Machine) pinnedType(runtimeDir string) (*prepare.Pin, error) {
	p := &prepare.Pin{Machines: r.Machines, Archive: []byte(r.VMType), Kept: !r.Unpinned}
	if r.VMType == "" {
		var err error
		p.Archive, err = readfile.ReadFile(filepath.Join(runtimeDir, prepare.TypeFile), prepare.LargestRecord)
		if err != nil {
			return nil, fmt.Errorf("read the type of the VM that runs: %w", err)
		}
	}
	return p, nil
}
