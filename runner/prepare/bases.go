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

	"vmop/internal/atomicfile"
	"vmop/internal/printable"
	"vmop/internal/readfile"
	"vmop/runner/disks"
	"vmop/vmtypes/confinement"
)

// basesFile records the backing files of the VM's images when it was first started with them. The images' headers
// also contain them, but a process that breaks out of QEMU can change headers.
//
// See docs/decisions/0063-bases.md.
const basesFile = "bases.json"

// basesOf returns the backing files of an image. They are recorded or, if the VM was never started with the image,
// taken from its header.
func (vm *VM) basesOf(image string) []string {
	kept, err := vm.keptBases()
	if err != nil {
		return nil // KeepBases reports it
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

// keptBases returns the recorded backing files by image.
func (vm *VM) keptBases() (map[string][]string, error) {
	kept := map[string][]string{}
	text, err := readfile.ReadFile(vm.basesPath(), LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read what images are overlays of: %w; replace %s with a backup, or remove it to "+
			"start the VM with the backing files that the images name", err, vm.basesPath())
	}
	return kept, nil
}

func (vm *VM) basesPath() string { return filepath.Join(vm.DataDir, basesFile) }

// inRepository reports whether a file is an image that is provided for all VMs.
func (vm *VM) inRepository(file string) bool {
	return strings.HasPrefix(file, filepath.Clean(vm.beyondThePlan().Images())+"/")
}

// KeepBases records the backing files of images that the VM was never started with. It returns an error if
// another image of the plan has a backing file that it didn't have before, because QEMU would get access to that
// file.
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
				faults = append(faults, fmt.Errorf("the image %s names the backing file %s, which it did not when the VM was "+
					"first started with it: a guest that has broken out may have changed it; if you did, remove %s to "+
					"start the VM with the backing files that its images name",
					image, printable.Line(base), vm.basesPath()))
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
	return atomicfile.Write(vm.basesPath(), append(text, '\n'), 0o600, atomicfile.Synced)
}
