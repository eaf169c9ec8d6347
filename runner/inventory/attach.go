package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vmop/internal/atomicfile"
	"vmop/internal/yamlfile"
	"vmop/runner/prepare"
	"vmop/runner/prepare/images"
	"vmop/runner/status"
	"vmop/vmspec"
)

// A DiskChange is the result of attaching, detaching or enlarging a disk.
type DiskChange struct {
	Disk Disk
	// Unchanged reports that the configuration already was as requested.
	Unchanged bool
	// Running reports whether the VM is running. Its guest has received or released the disk, or sees its new size,
	// unless Later gives the reason for a delay, and its end.
	Running bool
	Later   string
}

// A DiskRequest is a request to attach, detach or enlarge a disk.
type DiskRequest struct {
	// VM is the name of the VM.
	VM string
	// Limit is the time for the guest of a running VM.
	Limit time.Duration
	// AsRaw gives the guest an image of another format as a raw disk.
	AsRaw bool
	// Tell is called with the current step and what it waits for.
	Tell func(step, text string)
	// Warn is called with warnings about the configuration, before it is written.
	Warn func(text string)
}

// AttachDisk adds a disk to the configuration of a VM. If the VM is running, it waits until the guest has
// received the disk. The drive's File is absolute; it may be a block device, or empty for a new file in the data
// directory. A missing file is created from its Source, or blank with its Size. If the disk can't be attached,
// AttachDisk restores the configuration, and the error reports it.
//
// See docs/decisions/0132-attach-and-detach.md.
func (inv *Inventory) AttachDisk(ctx context.Context, r DiskRequest, d vmspec.Drive) (c DiskChange, err error) {
	vm, err := inv.editableVM(ctx, r.VM)
	if err != nil {
		return c, err
	}
	d = vm.completeDrive(d)
	what := fmt.Sprintf("attach %s to %s", cmp.Or(d.File, d.Device), vm.Name)
	drives := vm.Spec().Within(filepath.Dir(vm.File)).Drives
	if i := slices.IndexFunc(drives, func(other vmspec.Drive) bool { return sameDisk(d, other) }); i >= 0 {
		c = DiskChange{Disk: vm.diskOf(i, drives[i]), Unchanged: true, Running: vm.Running()}
		if err := vm.acceptAsRaw(r, drives[i]); err != nil {
			return c, err
		}
		return c, vm.awaitAttached(ctx, r, &c, what, anyGeneration)
	}
	at := slices.IndexFunc(drives, func(other vmspec.Drive) bool { return other.NBD != nil }) // NBD drives come last
	if at < 0 {
		at = len(drives)
	}
	all := vm.Config.VM
	all.Drives = slices.Insert(slices.Clone(all.Drives), at, d)
	whole := all.WithDefaults().Drives[at]
	d.Serial = whole.Serial // so that later changes don't change it
	before, err := vm.readText()
	if err != nil {
		return c, err
	}
	text, err := withDrive(before, at, d)
	if err != nil {
		return c, fmt.Errorf("%s: %w", what, err)
	}
	if err := vm.acceptAsRaw(r, whole); err != nil {
		return c, err
	}
	if err := inv.mayAttach(ctx, vm, text, at); err != nil {
		return c, err
	}
	file := cmp.Or(d.File, d.Device)
	_, missing := os.Lstat(file)
	if d.Source != "" {
		if err := inv.makeDisk(ctx, vm, whole, r.Tell); err != nil {
			return c, fmt.Errorf("%s: %w", what, err)
		}
	}
	generation := vm.configurationGeneration()
	review, err := inv.editAfter(ctx, vm.Name, before, text, r.warnFirst)
	if err == nil {
		c = DiskChange{Running: review.Running, Disk: Disk{Name: d.Serial}}
		if err = vm.awaitAttached(ctx, r, &c, what, generation); err != nil {
			err = fmt.Errorf("%w; %s", err, vm.putBack(ctx, text, before))
		}
	}
	if _, there := os.Lstat(file); err != nil && missing != nil && there == nil {
		err = fmt.Errorf("%w; %s was created, and stays", err, file)
	}
	c.Disk = vm.diskOf(at, whole) // the file may exist now
	return c, err
}

// DetachDisk removes a disk from the configuration of a VM. If the VM is running, it waits until the guest has
// released the disk. It keeps the disk's file.
func (inv *Inventory) DetachDisk(ctx context.Context, r DiskRequest, disk string) (c DiskChange, err error) {
	vm, err := inv.editableVM(ctx, r.VM)
	if err != nil {
		return c, err
	}
	what := fmt.Sprintf("detach the disk %s of %s", disk, vm.Name)
	drives := vm.Spec().Within(filepath.Dir(vm.File)).Drives
	i, d, err := vm.findDisk(drives, disk)
	if err != nil {
		if vm.Status != nil && driveOf(vm.Status, disk) != nil { // it is being detached
			c = DiskChange{Disk: Disk{VM: vm.Name, Name: disk}, Unchanged: true, Running: true}
			return c, vm.awaitDetached(ctx, r, &c, what, anyGeneration)
		}
		return c, err
	}
	running, err := vm.preparedAtStart(ctx)
	if err != nil {
		return c, err
	}
	why := bootsFrom(vm.Config.VM, drives, i)
	if why != "" && (running == nil || startedWith(running, disk)) {
		return c, fmt.Errorf("%s: %s; change what it boots from by: vmrunner edit %s", what, why, vm.Name)
	}
	before, err := vm.readText()
	if err != nil {
		return c, err
	}
	section, err := SectionOf(before)
	if err != nil {
		return c, err
	}
	text, err := yamlfile.RemoveItem(before, i, section, "vm", "drives")
	if err != nil {
		return c, fmt.Errorf("%s: %w", what, err)
	}
	generation := vm.configurationGeneration()
	review, err := inv.editAfter(ctx, vm.Name, before, text, r.warnFirst)
	if err != nil {
		return c, err
	}
	c = DiskChange{Disk: vm.diskOf(i, d), Running: review.Running}
	if err = vm.awaitDetached(ctx, r, &c, what, generation); errors.As(err, new(*refusedError)) {
		err = fmt.Errorf("%w; %s", err, vm.putBack(ctx, text, before))
	}
	return c, err
}

// editableVM returns a VM with a configuration that can be changed.
func (inv *Inventory) editableVM(ctx context.Context, name string) (*VM, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if vm.Config == nil {
		elsewhere := fmt.Errorf("%s runs with a configuration outside the folders for VMs; edit that", name)
		return nil, cmp.Or(vm.Fault, elsewhere)
	}
	return vm, nil
}

// completeDrive returns a drive with the keys that its file needs.
func (vm *VM) completeDrive(d vmspec.Drive) vmspec.Drive {
	if d.File == "" && d.Device == "" {
		for n := 1; ; n++ { // with the names that Draft uses
			d.File = filepath.Join(vm.DataDir, fmt.Sprintf("disk%d.img", n))
			drives := vm.Config.VM.Within(filepath.Dir(vm.File)).Drives
			taken := slices.ContainsFunc(drives, func(other vmspec.Drive) bool { return other.File == d.File })
			if _, err := os.Lstat(d.File); n > 1 && !taken && errors.Is(err, os.ErrNotExist) {
				break
			}
		}
	}
	if d.Format == "" && d.Size == 0 && d.Source == "" && filepath.Ext(d.File) == ".qcow2" {
		d.Format = "qcow2"
	}
	info, err := os.Stat(d.File)
	if err == nil && info.Mode().Type() == os.ModeDevice {
		d.File, d.Device = "", d.File
	}
	return d
}

// sameDisk reports whether two drives use the same file or device.
func sameDisk(a, b vmspec.Drive) bool {
	one, other := cmp.Or(a.File, a.Device), cmp.Or(b.File, b.Device, b.Resource)
	if b.Type == vmspec.DriveIDECD || b.NBD != nil {
		return false
	}
	if filepath.Clean(one) == filepath.Clean(other) {
		return true
	}
	x, err := os.Stat(one)
	y, e := os.Stat(other)
	return err == nil && e == nil && os.SameFile(x, y)
}

// withDrive returns the text of a configuration with one more drive.
func withDrive(text []byte, at int, d vmspec.Drive) ([]byte, error) {
	section, err := SectionOf(text)
	if err != nil {
		return nil, err
	}
	item, err := yamlfile.Write(d)
	if err != nil {
		return nil, err
	}
	return yamlfile.InsertItem(text, string(item), at, section, "vm", "drives")
}

// mayAttach checks that text is a valid configuration, and that the file of the new drive can be used.
func (inv *Inventory) mayAttach(ctx context.Context, vm *VM, text []byte, at int) error {
	prepared, _, err := inv.prepareText(ctx, vm, text)
	if err != nil {
		return err
	}
	faults := slices.DeleteFunc(prepared.MissingFiles(), func(f vmspec.Fault) bool {
		return !strings.HasPrefix(f.Path, fmt.Sprintf("vm.drives[%d].", at))
	})
	origins, err := prepare.ReadOrigins(vm.DataDir)
	if err != nil {
		return err
	}
	if origins == nil { // disks attached by an earlier version are raw
		origins = prepare.Origins{}
		origins.Add(slices.Delete(slices.Clone(prepared.Spec.Drives), at, at+1), prepare.Earlier)
	}
	faults = append(faults, prepare.WrongFormats(prepared.Spec.Drives, origins, vm.DataDir)...)
	return prepared.Config.Locate(faults)
}

// makeDisk creates a disk from its source. It prevents a runner from creating the disk at the same time.
func (inv *Inventory) makeDisk(ctx context.Context, vm *VM, d vmspec.Drive, tell func(step, text string)) error {
	release, err := vm.reserveVM()
	if err != nil {
		return err
	}
	cache, err := inv.imageCache(vm)
	if err == nil {
		err = cache.Make(ctx, images.DiskOf(d), func(p images.Progress) { tell(string(p.Step), p.String()) })
	}
	if err == nil {
		err = vm.editOrigins(func(o prepare.Origins) { o.Replace(d, d.Source) })
	}
	return errors.Join(err, release())
}

// acceptAsRaw records, if requested, that a disk is raw despite its header.
func (vm *VM) acceptAsRaw(r DiskRequest, d vmspec.Drive) error {
	if !r.AsRaw {
		return nil
	}
	if err := os.MkdirAll(vm.DataDir, 0o700); err != nil {
		return err
	}
	return vm.editOrigins(func(o prepare.Origins) { o.Add([]vmspec.Drive{d}, prepare.Found) })
}

// bootsFrom returns the reason why a VM needs a drive to boot; "" if it doesn't.
func bootsFrom(spec vmspec.Spec, drives []vmspec.Drive, i int) string {
	first := -1
	for n, d := range drives {
		if d.Type != vmspec.DriveRaw || d.NBD != nil {
			continue
		}
		switch {
		case first < 0:
			first = n
		case d.Bootindex != nil && (drives[first].Bootindex == nil || *d.Bootindex < *drives[first].Bootindex):
			first = n
		}
	}
	switch {
	case first != i || spec.Kernel != nil:
		return ""
	case drives[i].Bootindex != nil:
		return fmt.Sprintf("the VM boots from it, by bootindex: %d", *drives[i].Bootindex)
	}
	return "the VM boots from it, its first disk"
}

// readTime is the time for a runner to read a configuration.
const readTime = 5 * time.Second

// putBack restores the text of the configuration, and returns a description of the result. It waits until the
// runner has read the restored text; otherwise the runner would not notice an immediate repetition of the same
// change.
func (vm *VM) putBack(ctx context.Context, changed, before []byte) string {
	read := anyGeneration
	seen := func(s *status.Status) (bool, error) {
		read = int(s.Configuration.Generation)
		return true, nil
	}
	refused := vm.followRunner(ctx, readTime, anyGeneration, seen)
	now, err := vm.readText()
	if err == nil && string(now) != string(changed) {
		err = ErrChanged
	}
	if err == nil {
		err = atomicfile.Rewrite(vm.File, before)
	}
	if err != nil {
		return fmt.Sprintf("the configuration %s keeps this change, and was not put back: %v", vm.File, err)
	}
	if refused == nil {
		// without an answer, the runner has no time for the next change anyway
		_ = vm.followRunner(ctx, readTime, int64(read), seen)
	}
	return "the configuration is as it was"
}

// startedWith reports whether a VM was started with a disk of this serial number.
func startedWith(running *prepare.VM, serial string) bool {
	is := func(d vmspec.Drive) bool { return d.Serial == serial }
	return slices.ContainsFunc(running.Spec.WithoutNBD().Drives, is)
}

// driveOf returns the runner's report about a hotplugged disk; nil if there is no report.
func driveOf(s *status.Status, serial string) *status.Drive {
	i := slices.IndexFunc(s.Drives, func(d status.Drive) bool { return d.Name == serial })
	if i < 0 {
		return nil
	}
	return &s.Drives[i]
}
