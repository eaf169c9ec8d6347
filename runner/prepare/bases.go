package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vmop/durable"
	"vmop/printable"
	"vmop/regular"
	"vmop/runner/disks"
	"vmop/vmtypes/confinement"
)

// basesFile keeps what the images of the VM were overlays of when it was first started
// with them. Their headers say so, too, but those can be written by whatever runs in QEMU.
//
// See docs/decisions/0063-bases.md.
const basesFile = "bases.json"

// bases returns the files that an image is an overlay of: those that are kept or, of an
// image that the VM was never started with, those of its header.
func (vm *VM) bases(image string) []string {
	kept, err := vm.keptBases()
	if err != nil {
		return nil // KeepBases tells
	}
	list, known := kept[image]
	if !known {
		return disks.Bases(image)
	}
	for _, base := range disks.Bases(image) {
		if vm.inRepository(base) && !slices.Contains(list, base) {
			list = append(list, base)
		}
	}
	return list
}

// keptBases returns the bases that are kept, by the images.
func (vm *VM) keptBases() (map[string][]string, error) {
	kept := map[string][]string{}
	text, err := regular.ReadFile(vm.basesPath(), LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read what images are overlays of: %w; put a backup of %s in its place, or remove it to "+
			"start the VM with what the images say", err, vm.basesPath())
	}
	return kept, nil
}

func (vm *VM) basesPath() string { return filepath.Join(vm.DataDir, basesFile) }

// inRepository reports whether a file is an image that others provide for all VMs.
func (vm *VM) inRepository(file string) bool {
	return strings.HasPrefix(file, filepath.Clean(vm.beyondThePlan().Images())+"/")
}

// KeepBases keeps what the images of the plan are overlays of that the VM was never
// started with. It returns an error if another one is an overlay of other files than it
// was: QEMU would get them.
func (vm *VM) KeepBases() error {
	kept, err := vm.keptBases()
	if err != nil {
		return err
	}
	var changed bool
	var faults []error
	look := func(image string) []string {
		found := disks.Bases(image)
		before, known := kept[image]
		if _, err := os.Stat(image); !known && err == nil {
			kept[image], changed = append([]string{}, found...), true
			return nil
		}
		for _, base := range found {
			if known && !slices.Contains(before, base) && !vm.inRepository(base) {
				faults = append(faults, fmt.Errorf("the image %s says that it is an overlay of %s, and wasn't when the VM was "+
					"first started with it: a guest that has broken out may have written that; if it was you, remove %s to "+
					"start the VM with what its images say", image, printable.Line(base), vm.basesPath()))
			}
		}
		return nil
	}
	confinement.Of(vm.Plan, confinement.Facts{Bases: look})
	if faults != nil || !changed {
		return errors.Join(faults...)
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(vm.basesPath(), append(text, '\n'), 0o600, durable.Synced)
}
