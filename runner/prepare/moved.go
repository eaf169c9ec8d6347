package prepare

import (
	"encoding/json"
	"fmt"
	"maps"

	"vmop/internal/atomicfile"
	"vmop/vmspec"
)

// MoveRecords adds to the records of a VM's images what it knows about each image under its future path. at returns
// the future path of a file. The records of the current paths stay, so that the VM also works without the move.
func MoveRecords(dataDir string, drives []vmspec.Drive, at func(string) string) error {
	err := EditOrigins(dataDir, drives, func(o Origins) {
		for path, known := range maps.Clone(o) {
			o[at(path)] = known
		}
	})
	if err != nil {
		return err
	}
	vm := &VM{DataDir: dataDir}
	bases, err := vm.keptBases()
	if err != nil || len(bases) == 0 {
		return err
	}
	for image, list := range maps.Clone(bases) {
		bases[at(image)] = list
	}
	text, err := json.MarshalIndent(bases, "", "  ")
	if err == nil {
		err = atomicfile.Write(vm.basesPath(), append(text, '\n'), 0o600, atomicfile.Synced)
	}
	if err != nil {
		return fmt.Errorf("record the images under their new paths: %w", err)
	}
	return nil
}
