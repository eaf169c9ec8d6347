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

	"vmop/internal/atomicfile"
	"vmop/internal/printable"
	"vmop/internal/readfile"
	"vmop/vmtypes/evaluate"
)

// A Pin contains the VM type that a VM is run with, and the machine versions.
type Pin struct {
	Machines map[string]string // by their aliases
	Archive  []byte            // of the type
	Kept     bool              // the archive is in the data directory
}

// loadPin returns the pinned type of the data directory if it exists and has the wanted name. Otherwise it
// returns the type from the folder vmTypes or the stock type. With update it ignores the pinned type and machine
// versions.
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

// readPin returns nil if no type, or another type, is pinned.
func readPin(types *evaluate.Group, dataDir, name string) (*Pin, *evaluate.Member, error) {
	data, err := readfile.ReadFile(filepath.Join(dataDir, pinnedType), LargestRecord)
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
		return nil, nil, fmt.Errorf("%s, the VM type that this VM was first started with, is gone, but %s exists; another type "+
			"could change the guest's hardware: restore a backup, or set updateVmType: true to take the type from the "+
			"library", filepath.Join(dataDir, pinnedType), PinnedMachines)
	}
	if len(data) == 0 && len(machines) == 0 {
		return nil, nil, nil // an earlier version can leave this after a power failure during the first start
	}
	vmType := types.AddKept(data)
	if kept := vmType.Name(); kept != "" && kept != strings.TrimSuffix(filepath.Base(name), ".star") {
		return nil, nil, nil
	}
	if err := vmType.Load(); err != nil {
		return nil, nil, fmt.Errorf("pinned in %s: %w; restore a backup, or set updateVmType: true to take the type "+
			"from the library again", filepath.Join(dataDir, pinnedType), err)
	}
	return &Pin{Archive: data, Kept: true, Machines: machines}, vmType, nil
}

// HasVersion reports whether a machine type is pinned.
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
	return atomicfile.Write(filepath.Join(dataDir, pinnedType), p.Archive, 0o600, atomicfile.Synced)
}

// ReadMachines returns the pinned machine versions of a data directory, by their aliases. It reads lines of the
// form "q35 pc-q35-7.2". An empty file counts as missing: an earlier version may have left it after a power
// failure.
func ReadMachines(dataDir string) (map[string]string, error) {
	path := filepath.Join(dataDir, PinnedMachines)
	data, err := readfile.ReadFile(path, LargestNote)
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
			return nil, fmt.Errorf("%s:%d: %q must be an alias and a machine version, such as q35 pc-q35-7.2; restore a backup, "+
				"or set updateVmType: true to take the type, and this QEMU's machine version, again",
				path, i+1, printable.Clip(printable.Line(line), 40))
		}
		machines[fields[0]] = fields[1]
	}
	return machines, nil
}

// KeepMachine records the version that an alias stands for, in the data directory.
func (p *Pin) KeepMachine(dataDir, alias, version string) error {
	return writeMachine(dataDir, p.Machines, alias, version)
}

// writeMachine records the version that an alias stands for. It skips an alias that is already a version.
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
	return atomicfile.Write(filepath.Join(dataDir, PinnedMachines), b.Bytes(), 0o600, atomicfile.Synced)
}
