package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"vmop/diskimage"
	"vmop/internal/spelling"
	"vmop/internal/yamlfile"
	"vmop/runner/adopt/lock"
	"vmop/runner/disks"
	"vmop/runner/prepare"
	"vmop/runner/prepare/images"
	"vmop/vmspec"
)

// A Disk describes one of a VM's disks: its configuration and its file.
type Disk struct {
	VM string `json:"vm"`
	// Name is the serial number, which identifies the disk in the guest. Place is its index in vm.drives.
	Name  string `json:"name"`
	Place int    `json:"place"`
	// File is the path of the image or device, or the address of a disk of an NBD server.
	File   string `json:"file"`
	Format string `json:"format"`
	// Source is the image that the disk was created from, as recorded at that time. If the disk is Missing, it is
	// the image that it will be created from. It is empty if the disk was created blank, or its source is
	// unknown.
	Source string `json:"source,omitempty"`
	// Missing reports that the file doesn't exist. The next start creates it if it has a source or a size.
	Missing bool `json:"missing,omitempty"`
	// Size is the size that the guest sees, Stored the space that the disk occupies on the host. Both are in
	// bytes; 0 means not known.
	Size   int64 `json:"size,omitempty"`
	Stored int64 `json:"stored,omitempty"`
	// Wanted is the configured size in bytes; 0 if the configuration has no size.
	Wanted int64 `json:"wantedSize,omitempty"`
}

// Disks returns the disks of a VM.
func (inv *Inventory) Disks(ctx context.Context, name string) ([]Disk, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	return vm.Disks()
}

// Disks returns the disks of the VM.
func (vm *VM) Disks() (list []Disk, err error) {
	if vm.Config == nil {
		return nil, cmp.Or(vm.Fault, fmt.Errorf("the configuration of %s is not known", vm.Name))
	}
	origins, err := prepare.ReadOrigins(vm.DataDir)
	for i, d := range vm.Spec().Within(filepath.Dir(vm.File)).Drives {
		if d.Type == vmspec.DriveRaw {
			list = append(list, diskOf(vm.Name, i, d, origins))
		}
	}
	return list, err
}

func diskOf(vm string, place int, d vmspec.Drive, origins prepare.Origins) Disk {
	origin, _ := origins.Of(d)
	disk := Disk{
		VM: vm, Name: d.Serial, Place: place, File: cmp.Or(d.File, d.Device, d.Resource), Format: d.Format,
		Source: origin.Source, Wanted: int64(d.Size),
	}
	if d.NBD != nil {
		disk.File = "nbd://" + net.JoinHostPort(d.NBD.Host, strconv.Itoa(d.NBD.Port)) + "/" + d.NBD.Export
		return disk
	}
	info, err := os.Stat(disk.File)
	if err != nil {
		disk.Missing = errors.Is(err, os.ErrNotExist)
		if disk.Missing {
			disk.Source, _, _ = vmspec.Credentials(d.Source)
		}
		return disk
	}
	file, err := os.OpenFile(disk.File, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return disk // the user may not read it
	}
	defer file.Close()
	if s, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		const sector = 512 // the unit of st_blocks
		disk.Stored = s.Blocks * sector
	}
	if d.Format != "raw" {
		header := make([]byte, diskimage.HeaderSize)
		n, _ := io.ReadFull(file, header) // a short file isn't an image
		about, _ := diskimage.Probe(header[:n])
		disk.Size = about.VirtualSize
		return disk
	}
	disk.Size, _ = file.Seek(0, io.SeekEnd)
	return disk
}

// Sources returns the images that the drives of a VM were created from, or will be created from if they are
// missing, by their places in vm.drives; see Disk.Source.
func (vm *VM) Sources() map[int]string {
	origins, _ := prepare.ReadOrigins(vm.DataDir) // without a record, sources are unknown
	sources := map[int]string{}
	for i, d := range drivesOf(vm.Config, vm.File) {
		origin, _ := origins.Of(d)
		sources[i] = origin.Source
		if _, err := os.Lstat(d.File); errors.Is(err, os.ErrNotExist) {
			sources[i], _, _ = vmspec.Credentials(d.Source)
		}
	}
	return sources
}

// editOrigins changes the record of the VM's disks.
func (vm *VM) editOrigins(change func(prepare.Origins)) error {
	var drives []vmspec.Drive
	if vm.Config != nil {
		drives = vm.Spec().Within(filepath.Dir(vm.File)).Drives
	}
	return prepare.EditOrigins(vm.DataDir, drives, change)
}

// diskOf returns a disk with its recorded origin.
func (vm *VM) diskOf(place int, d vmspec.Drive) Disk {
	origins, _ := prepare.ReadOrigins(vm.DataDir) // Disks reports the error
	return diskOf(vm.Name, place, d, origins)
}

// findDisk returns the index and the drive of the disk with this name.
func (vm *VM) findDisk(drives []vmspec.Drive, name string) (int, vmspec.Drive, error) {
	var names []string
	for i, d := range drives {
		if d.Type != vmspec.DriveRaw {
			continue
		}
		if d.Serial == name {
			return i, d, nil
		}
		names = append(names, d.Serial)
	}
	hint := "its disks: " + strings.Join(names, ", ")
	if near := spelling.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	} else if names == nil {
		hint = "it has none"
	}
	return 0, vmspec.Drive{}, fmt.Errorf("%s has no disk %s (%s)", vm.Name, name, hint)
}

// imageCache returns the image cache of the VM's runner.
func (inv *Inventory) imageCache(vm *VM) (*images.Cache, error) {
	if vm.Place == nil {
		return images.NewCache(inv.opts.Env)
	}
	return images.NewCache(vm.Place.Env)
}

// MakeDisks creates the missing disks of a VM, like its start. If which isn't nil, it creates only the disks with
// these names. It returns the created disks.
func (inv *Inventory) MakeDisks(
	ctx context.Context, name string, which []string, tell func(images.Progress),
) (made []Disk, err error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	prepared, err := inv.preparedNow(ctx, vm)
	if err != nil {
		return nil, err
	}
	release, err := vm.reserveVM()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	faults, err := prepared.StartFaults()
	if err == nil {
		err = prepared.Config.Locate(faults)
	}
	if err != nil {
		return nil, err
	}
	cache, err := inv.imageCache(vm)
	if err != nil {
		return nil, err
	}
	drives := prepared.Spec.Drives
	for _, disk := range which {
		if _, _, err := vm.findDisk(drives, disk); err != nil {
			return nil, err
		}
	}
	if err := prepared.KeepOrigins(false); err != nil {
		return nil, err
	}
	faults = nil
	for i, d := range drives {
		if _, err := os.Lstat(d.File); d.Source == "" && d.Size == 0 || !errors.Is(err, os.ErrNotExist) ||
			which != nil && !slices.Contains(which, d.Serial) {
			continue
		}
		if d.Source != "" {
			if err := cache.Make(ctx, images.DiskOf(d), tell); err != nil {
				fault, is := images.Fault(i, d, err)
				if !is {
					return made, err
				}
				faults = append(faults, fault)
				continue
			}
		} else {
			faults = append(faults, disks.MakeImages([]vmspec.Drive{d}, inv.opts.Log)...)
		}
		made = append(made, vm.diskOf(i, d))
	}
	return made, prepared.Config.Locate(faults)
}

// reserveVM prevents a stopped VM from being started until release is called. It creates the data directory if
// needed. For a running VM it does nothing.
func (vm *VM) reserveVM() (release func() error, err error) {
	if vm.Running() {
		return func() error { return nil }, nil
	}
	held, err := lock.Runner(vm.DataDir)
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

// reserveStopped is like reserveVM, but refuses a running VM.
func (vm *VM) reserveStopped(what string) (release func() error, err error) {
	if vm.Running() {
		return nil, fmt.Errorf("%s: %w; stop it with: vmrunner stop %s --wait", what, ErrRunning, vm.Name)
	}
	return vm.reserveVM()
}

// ImportDisk creates a disk from another source than the configured source, or from a file. It replaces an
// existing disk only if replace is true. The VM must not be running.
func (inv *Inventory) ImportDisk(
	ctx context.Context, name, disk string, from images.Source, replace bool, tell func(images.Progress),
) (made Disk, err error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return Disk{}, err
	}
	prepared, err := inv.preparedNow(ctx, vm)
	if err != nil {
		return Disk{}, err
	}
	i, d, err := vm.findDisk(prepared.Spec.Drives, disk)
	if err != nil {
		return Disk{}, err
	}
	if d.File == "" || d.Format != "raw" {
		return Disk{}, fmt.Errorf("import into the disk %s of %s: it is not a raw image; qemu-img writes other formats", disk, name)
	}
	release, err := vm.reserveStopped("import into the disk " + disk + " of " + name)
	if err != nil {
		return Disk{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	cache, err := inv.imageCache(vm)
	if err != nil {
		return Disk{}, err
	}
	err = cache.Make(ctx, images.Disk{File: d.File, Source: from, Size: int64(d.Size), Replace: replace}, tell)
	if err == nil {
		err = vm.editOrigins(func(o prepare.Origins) { o.Replace(d, from.Text) })
	}
	return vm.diskOf(i, d), err
}

// SetInVM returns the text of a configuration with another value in the vm section. It leaves the rest of the
// text unchanged; see yamlfile.Edit.
func SetInVM(text []byte, value string, path ...string) ([]byte, error) {
	section, err := SectionOf(text)
	if err != nil {
		return nil, err
	}
	return yamlfile.Edit(text, value, append([]string{section, "vm"}, path...)...)
}

// SectionOf returns how a configuration spells the section of the runner (runner/config accepts both).
func SectionOf(text []byte) (string, error) {
	const usual, older = "/Runner", "_Runner"
	has, err := yamlfile.Has(text, older)
	if has {
		return older, err
	}
	return usual, err
}

// ExportDisk copies a disk to a new file, in the format raw or qcow2. The VM must not be running.
func (inv *Inventory) ExportDisk(ctx context.Context, name, disk, to, format string) (err error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	if vm.Config == nil {
		return vm.Fault
	}
	what := "export the disk " + disk + " of " + name
	if format != string(diskimage.QCOW2) && format != string(diskimage.Raw) {
		return fmt.Errorf("%s: the format %q must be qcow2 or raw", what, format)
	}
	_, d, err := vm.findDisk(vm.Spec().Within(filepath.Dir(vm.File)).Drives, disk)
	if err != nil {
		return err
	}
	if d.NBD != nil {
		return fmt.Errorf("%s: what is on it is %s's, an NBD server; copy it there", what, d.NBD.Host)
	}
	release, err := vm.reserveStopped(what)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	from := cmp.Or(d.File, d.Device, d.Resource)
	if _, err := os.Stat(from); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return diskimage.Export(ctx, from, diskimage.Format(d.Format), to, diskimage.Format(format))
}
