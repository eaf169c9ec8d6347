package prepare

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vmop/durable"
	"vmop/printable"
	"vmop/regular"
	"vmop/vmtypes/evaluate"
)

// A Pin is the type that a VM is run with, and the machine versions.
type Pin struct {
	Machines map[string]string // by their aliases
	Archive  []byte            // of the type
	Kept     bool              // the archive is in the data directory
}

// loadPin returns the pinned type of the data directory, if it has one and it
// is the wanted type, or else that of the folder vmTypes or the stock type. With
// update the pinned one is not looked at, and machine versions start anew.
//
// See docs/decisions/0010-pinning.md.
func loadPin(types *evaluate.Group, vmTypes, dataDir, name string, update bool) (*Pin, *evaluate.Member, error) {
	if !update {
		p, vmType, err := readPin(types, dataDir, name)
		if p != nil || err != nil {
			return p, vmType, err
		}
	}
	found, err := evaluate.Find(vmTypes, name)
	if err != nil {
		return nil, nil, err
	}
	vmType, err := types.Add(found)
	if err != nil {
		return nil, nil, err
	}
	p := &Pin{}
	if p.Archive, err = vmType.Archive(); err != nil {
		return nil, nil, err
	}
	if !update {
		p.Machines, err = ReadMachines(dataDir)
	}
	return p, vmType, err
}

// readPin returns nil if nothing is pinned, or another type.
func readPin(types *evaluate.Group, dataDir, name string) (*Pin, *evaluate.Member, error) {
	data, err := regular.ReadFile(filepath.Join(dataDir, pinnedType), LargestRecord)
	lost := errors.Is(err, fs.ErrNotExist)
	if err != nil && !lost {
		return nil, nil, fmt.Errorf("read pinned VM type: %w", err)
	}
	machines, err := ReadMachines(dataDir)
	switch {
	case err != nil:
		return nil, nil, err
	case lost && len(machines) == 0:
		return nil, nil, nil
	case lost:
		return nil, nil, fmt.Errorf("%s is gone, the VM type that this VM was first started with, though %s is there; another type "+
			"could change the guest's hardware: put a backup in its place, or set updateVmType: true to take the type from the "+
			"library", filepath.Join(dataDir, pinnedType), PinnedMachines)
	}
	if len(data) == 0 && len(machines) == 0 {
		return nil, nil, nil // left by a power failure during the first start, of an earlier version
	}
	vmType := types.AddKept(data)
	if kept := vmType.Name(); kept != "" && kept != strings.TrimSuffix(filepath.Base(name), ".star") {
		return nil, nil, nil
	}
	if err := vmType.Load(); err != nil {
		return nil, nil, fmt.Errorf("pinned in %s: %w; put a backup in its place, or set updateVmType: true to take the type "+
			"from the library again", filepath.Join(dataDir, pinnedType), err)
	}
	return &Pin{Archive: data, Kept: true, Machines: machines}, vmType, nil
}

// HasVersion says that a machine type is one that is pinned.
func (p *Pin) HasVersion(machine string) bool {
	for _, version := range p.Machines {
		if version == machine {
			return true
		}
	}
	return false
}

// Keep stores the type in the data directory.
func (p *Pin) Keep(dataDir string) error {
	if p.Kept {
		return nil
	}
	return durable.Write(filepath.Join(dataDir, pinnedType), p.Archive, 0o600, durable.Synced)
}

// ReadMachines returns the machine versions that are pinned in a data directory, by their
// aliases. It reads lines of the form "q35 pc-q35-7.2". An empty file, which a power
// failure may have left of an earlier version's, is as good as none.
func ReadMachines(dataDir string) (map[string]string, error) {
	path := filepath.Join(dataDir, PinnedMachines)
	data, err := regular.ReadFile(path, LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read pinned machine versions: %w", err)
	}
	if len(data) == 0 {
		return nil, nil
	}
	machines := map[string]string{}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s:%d: got %q, want an alias and a machine version, such as q35 pc-q35-7.2; put a backup "+
				"in its place, or set updateVmType: true to take the type, and this QEMU's machine version, again",
				path, i+1, printable.Clip(printable.Line(line), 40))
		}
		machines[fields[0]] = fields[1]
	}
	return machines, nil
}

// KeepMachine remembers the version that an alias stands for, in the data directory.
func (p *Pin) KeepMachine(dataDir, alias, version string) error {
	return writeMachine(dataDir, p.Machines, alias, version)
}

// writeMachine remembers the version that an alias stands for. An alias that is
// a version already needs no memory.
func writeMachine(dataDir string, machines map[string]string, alias, version string) error {
	if alias == version || machines[alias] == version {
		return nil
	}
	known := map[string]string{}
	maps.Copy(known, machines)
	known[alias] = version
	var b bytes.Buffer
	for _, a := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintln(&b, a, known[a])
	}
	return durable.Write(filepath.Join(dataDir, PinnedMachines), b.Bytes(), 0o600, durable.Synced)
}
