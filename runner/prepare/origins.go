package prepare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vmop/diskimage"
	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/vmspec"
)

// originsFile records where the raw disks of a VM came from. A disk in this record is raw, regardless of what its
// guest has written to its beginning since.
//
// See docs/decisions/0175-left-over-data.md and docs/decisions/0176-format-of-a-disk.md.
const originsFile = "disks.json"

// An Origin is how a VM got a raw disk.
type Origin string

// The origins.
const (
	// Created disks were created for the VM: from a source, or blank.
	Created Origin = "created"
	// Found disks existed when the VM first used them.
	Found Origin = "found"
	// Earlier disks were used before there was a record, so their origin is unknown.
	Earlier Origin = "earlier"
)

// A DiskOrigin is the origin of one disk.
type DiskOrigin struct {
	Origin Origin `json:"origin"`
	// Source is the image that a Created disk was copied from, without credentials; "" for a blank disk.
	Source string `json:"source,omitempty"`
}

// Origins are the origins of a VM's raw disks, by path.
type Origins map[string]DiskOrigin

// OriginsFile returns the path of the record of disks in a data directory.
func OriginsFile(dataDir string) string { return filepath.Join(dataDir, originsFile) }

// ReadOrigins reads the record of disks in a data directory. Without a record the result is nil.
func ReadOrigins(dataDir string) (o Origins, err error) {
	text, err := readfile.ReadFile(OriginsFile(dataDir), LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read where the disks came from: %w; restore %s from a backup, or remove it", err,
			OriginsFile(dataDir))
	}
	return o, nil
}

// EditOrigins changes the record of disks in a data directory. Changes by several programs are serialized. If
// there is no record yet, but the VM was started before, the disks of drives are recorded as Earlier.
func EditOrigins(dataDir string, drives []vmspec.Drive, change func(Origins)) error {
	folder, err := os.Open(dataDir)
	if err != nil {
		return fmt.Errorf("cannot record where the disks came from: %w", err)
	}
	defer folder.Close()
	_ = unix.Flock(int(folder.Fd()), unix.LOCK_EX) // some network file systems lack such locks
	o, err := ReadOrigins(dataDir)
	if err != nil {
		return err
	}
	before, _ := json.Marshal(o)
	if o == nil {
		o = Origins{}
		if wasStarted(dataDir) {
			o.Add(drives, Earlier)
		}
	}
	change(o)
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	if after, _ := json.Marshal(o); string(before) == string(after) {
		return nil
	}
	return atomicfile.Write(OriginsFile(dataDir), append(text, '\n'), 0o600, atomicfile.Synced)
}

// Of returns the origin of a drive's disk, and whether it is recorded.
func (o Origins) Of(d vmspec.Drive) (DiskOrigin, bool) {
	known, is := o[rawDisk(d)]
	return known, is
}

// rawDisk returns the path of a drive that is a raw disk; "" for other drives.
func rawDisk(d vmspec.Drive) string {
	if d.Type != vmspec.DriveRaw || d.Format != "raw" || d.NBD != nil {
		return ""
	}
	return filepath.Clean(cmp.Or(d.File, d.Device, d.Resource))
}

// Add records drives with an origin, except those that are already recorded. With Found, before a start, it
// records a missing disk as Created, because it is about to be created from its source.
func (o Origins) Add(drives []vmspec.Drive, origin Origin) {
	for _, d := range drives {
		path := rawDisk(d)
		if path == "" {
			continue
		}
		_, err := os.Lstat(path)
		switch _, known := o[path]; {
		case errors.Is(err, fs.ErrNotExist) && origin == Found:
			bare, _, _ := vmspec.Credentials(d.Source)
			o[path] = DiskOrigin{Origin: Created, Source: bare}
		case !known:
			o[path] = DiskOrigin{Origin: origin}
		}
	}
}

// Replace records that a disk was created from a source, even if it replaces an earlier disk.
func (o Origins) Replace(d vmspec.Drive, source string) {
	if path := rawDisk(d); path != "" {
		bare, _, _ := vmspec.Credentials(source)
		o[path] = DiskOrigin{Origin: Created, Source: bare}
	}
}

// wasStarted reports whether a VM was started before there were records of disks.
func wasStarted(dataDir string) bool {
	_, err := os.Lstat(filepath.Join(dataDir, pinnedType))
	return err == nil
}

// KeepOrigins records the disks of a VM that is about to start, or is running.
func (vm *VM) KeepOrigins(runs bool) error {
	origin := Found
	if runs {
		origin = Earlier
	}
	return EditOrigins(vm.DataDir, vm.Spec.Drives, func(o Origins) { o.Add(vm.Spec.Drives, origin) })
}

// WrongFormats returns an error for each raw disk that contains an image of another format, according to its
// header. It skips disks that the VM has used as raw, because their guest may have written such a header. With
// nil origins, it also skips the disks of a VM that was started before.
func WrongFormats(drives []vmspec.Drive, origins Origins, dataDir string) (faults []vmspec.Fault) {
	if origins == nil && wasStarted(dataDir) {
		return nil
	}
	for i, d := range drives {
		path := rawDisk(d)
		if _, known := origins[path]; known || path == "" {
			continue
		}
		format, err := diskimage.Container(path)
		if err != nil || format == "" {
			continue // MissingFiles reports missing files, and QEMU reports files that can't be opened
		}
		place, value := "file", d.File
		if value == "" {
			place, value = "device", path
		}
		faults = append(faults, vmspec.Fault{
			Path: fmt.Sprintf("vm.drives[%d].%s", i, place),
			Message: fmt.Sprintf("%q contains an image of the format %s; as a raw disk the guest would overwrite its header",
				value, format),
			Hint: wrongFormatHint(format),
		})
	}
	return faults
}

func wrongFormatHint(format string) string {
	if format == "qcow2" {
		return "set format: qcow2, or use it as the source of a new disk"
	}
	return "use it as the source of a new disk, or convert it with qemu-img"
}

// StartFaults returns the errors that prevent a start although the configuration is valid: missing files, disks
// of another format, URLs with internal addresses, and more RAM than this computer has.
func (vm *VM) StartFaults() ([]vmspec.Fault, error) {
	origins, err := ReadOrigins(vm.DataDir)
	if err != nil {
		return nil, err
	}
	faults := append(vm.MissingFiles(), WrongFormats(vm.Spec.Drives, origins, vm.DataDir)...)
	faults = append(faults, vm.refusedAddresses()...)
	faults = append(faults, vm.missingSecrets()...)
	if fault := tooMuchRAM(vm.Spec.MaximumRAM); fault != nil {
		faults = append(faults, *fault)
	}
	return faults, nil
}

// UnusedSources returns an error for each disk that exists and was not created from the source in its drive.
func UnusedSources(vm string, drives []vmspec.Drive, origins Origins) (faults []vmspec.Fault) {
	for i, d := range drives {
		known, recorded := origins.Of(d)
		wanted, _, _ := vmspec.Credentials(d.Source)
		if d.Source == "" || !recorded || known.Origin == Earlier || known.Source == wanted {
			continue
		}
		if _, err := os.Lstat(rawDisk(d)); err != nil {
			continue
		}
		has := "it was created blank"
		switch {
		case known.Origin == Found:
			has = "it existed before the VM used it"
		case known.Source != "":
			has = "it was created from " + known.Source
		}
		faults = append(faults, vmspec.Fault{
			Path: fmt.Sprintf("vm.drives[%d].source", i),
			Message: fmt.Sprintf("%s is not used: the disk %s exists, and %s; to replace the disk, run: vmrunner disk import "+
				"%s %s %s --replace", wanted, d.File, has, vm, d.Serial, wanted),
		})
	}
	return faults
}
