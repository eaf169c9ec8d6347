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

	"vmop/durable"
	"vmop/runner/images"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/yamlfile"
)

// A DiskChange is what has become of a disk that was to be attached or detached.
type DiskChange struct {
	Disk Disk
	// Unchanged says that the configuration has been as is wanted before.
	Unchanged bool
	// Running says that the VM runs. Its guest has the disk now, or not any more, unless Later says why not, and
	// until when.
	Running bool
	Later   string
	// Warnings about the configuration, for people.
	Warnings []string
}

// A DiskRequest is a disk that is to be attached or detached.
type DiskRequest struct {
	// VM is its name.
	VM string
	// Limit is how long the guest of a VM that runs may take.
	Limit time.Duration
	// AsRaw gives the guest an image of another format as a raw disk.
	AsRaw bool
	// Tell is called with what is waited for, and the step that this belongs to.
	Tell func(step, text string)
}

// AttachDisk adds a disk to the configuration of a VM, and waits until the guest of one that runs has it. The
// drive's File is absolute, or empty for a new one in the data directory; it may be a block device. One that
// isn't there is made of its Source, or empty, of its Size. Where the disk can't be attached, the configuration
// is put back, which the error says.
//
// See docs/decisions/0132-attach-and-detach.md.
func (inv *Inventory) AttachDisk(ctx context.Context, r DiskRequest, d vmspec.Drive) (c DiskChange, err error) {
	vm, err := inv.editable(ctx, r.VM)
	if err != nil {
		return c, err
	}
	d = vm.completed(d)
	what := fmt.Sprintf("attach %s to %s", cmp.Or(d.File, d.Device), vm.Name)
	drives := vm.Config.VM.WithDefaults().Within(filepath.Dir(vm.File)).Drives
	if i := slices.IndexFunc(drives, func(other vmspec.Drive) bool { return sameDisk(d, other) }); i >= 0 {
		c = DiskChange{Disk: vm.diskOf(i, drives[i]), Unchanged: true, Running: vm.Running()}
		if err := vm.acceptAsRaw(r, drives[i]); err != nil {
			return c, err
		}
		return c, vm.attached(ctx, r, &c, what, anyGeneration)
	}
	at := slices.IndexFunc(drives, func(other vmspec.Drive) bool { return other.NBD != nil }) // these are the last
	if at < 0 {
		at = len(drives)
	}
	all := vm.Config.VM
	all.Drives = slices.Insert(slices.Clone(all.Drives), at, d)
	whole := all.WithDefaults().Drives[at]
	d.Serial = whole.Serial // it stays the same, whatever is added later
	before, err := vm.text()
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
	generation := vm.generation()
	review, err := inv.Edit(ctx, vm.Name, before, text)
	if err == nil {
		c = DiskChange{Running: review.Running, Warnings: review.Warnings, Disk: Disk{Name: d.Serial}}
		if err = vm.attached(ctx, r, &c, what, generation); err != nil {
			err = fmt.Errorf("%w; %s", err, vm.putBack(ctx, r, text, before))
		}
	}
	if _, there := os.Lstat(file); err != nil && missing != nil && there == nil {
		err = fmt.Errorf("%w; %s was made, and stays", err, file)
	}
	c.Disk = vm.diskOf(at, whole) // it may have been made meanwhile
	return c, err
}

// DetachDisk removes a disk from the configuration of a VM, and waits until the guest of one that runs has let go
// of it. Its file stays.
func (inv *Inventory) DetachDisk(ctx context.Context, r DiskRequest, disk string) (c DiskChange, err error) {
	vm, err := inv.editable(ctx, r.VM)
	if err != nil {
		return c, err
	}
	what := fmt.Sprintf("detach the disk %s of %s", disk, vm.Name)
	drives := vm.Config.VM.WithDefaults().Within(filepath.Dir(vm.File)).Drives
	i, d, err := vm.disk(drives, disk)
	if err != nil {
		if vm.Status != nil && driveOf(vm.Status, disk) != nil { // it is being detached
			c = DiskChange{Disk: Disk{VM: vm.Name, Name: disk}, Unchanged: true, Running: true}
			return c, vm.detached(ctx, r, &c, what, anyGeneration)
		}
		return c, err
	}
	running, err := vm.started(ctx)
	if err != nil {
		return c, err
	}
	why := bootsFrom(vm.Config.VM, drives, i)
	if why != "" && (running == nil || startedWith(running, disk)) {
		return c, fmt.Errorf("%s: %s; change what it boots from by: vmrunner edit %s", what, why, vm.Name)
	}
	before, err := vm.text()
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
	generation := vm.generation()
	review, err := inv.Edit(ctx, vm.Name, before, text)
	if err != nil {
		return c, err
	}
	c = DiskChange{Disk: vm.diskOf(i, d), Running: review.Running, Warnings: review.Warnings}
	if err = vm.detached(ctx, r, &c, what, generation); errors.As(err, new(*refusedError)) {
		err = fmt.Errorf("%w; %s", err, vm.putBack(ctx, r, text, before))
	}
	return c, err
}

// editable returns a VM whose configuration can be changed.
func (inv *Inventory) editable(ctx context.Context, name string) (*VM, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if vm.Config == nil {
		elsewhere := fmt.Errorf("%s runs by a configuration in none of the folders for VMs; edit that", name)
		return nil, cmp.Or(vm.Fault, elsewhere)
	}
	return vm, nil
}

// completed returns a drive with the key that its file needs.
func (vm *VM) completed(d vmspec.Drive) vmspec.Drive {
	if d.File == "" && d.Device == "" {
		for n := 1; ; n++ { // as Draft names them
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

// sameDisk reports whether two drives are of the same file or device.
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

// mayAttach wants a text to be a configuration that could be taken, whose new drive could be there.
func (inv *Inventory) mayAttach(ctx context.Context, vm *VM, text []byte, at int) error {
	prepared, _, err := inv.prepared(ctx, vm, text)
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
	if origins == nil { // disks that an earlier version has attached are raw
		origins = prepare.Origins{}
		origins.Add(slices.Delete(slices.Clone(prepared.Spec.Drives), at, at+1), prepare.Earlier)
	}
	faults = append(faults, prepare.WrongFormats(prepared.Spec.Drives, origins, vm.DataDir)...)
	return prepared.Config.Locate(faults)
}

// makeDisk makes a disk of its source. No runner makes it meanwhile.
func (inv *Inventory) makeDisk(ctx context.Context, vm *VM, d vmspec.Drive, tell func(step, text string)) error {
	release, err := vm.reserve()
	if err != nil {
		return err
	}
	cache, err := inv.cache(vm)
	if err == nil {
		err = cache.Make(ctx, images.DiskOf(d), func(p images.Progress) { tell(string(p.Step), p.String()) })
	}
	if err == nil {
		err = vm.editOrigins(func(o prepare.Origins) { o.Replace(d, d.Source) })
	}
	return errors.Join(err, release())
}

// acceptAsRaw records that a disk is raw in spite of its header, if that is wanted.
func (vm *VM) acceptAsRaw(r DiskRequest, d vmspec.Drive) error {
	if !r.AsRaw {
		return nil
	}
	if err := os.MkdirAll(vm.DataDir, 0o700); err != nil {
		return err
	}
	return vm.editOrigins(func(o prepare.Origins) { o.Add([]vmspec.Drive{d}, prepare.Found) })
}

// bootsFrom says why a VM needs a drive to boot; "" if it doesn't.
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

// readTime is how long a runner may take to read a configuration.
const readTime = 5 * time.Second

// putBack gives the configuration its text again, and says what has become of it. The runner has read it then, or
// else the same change, made again at once, were none to it.
func (vm *VM) putBack(ctx context.Context, r DiskRequest, changed, before []byte) string {
	r.Limit = readTime
	read := anyGeneration
	seen := func(s *status.Status) (bool, error) {
		read = int(s.Configuration.Generation)
		return true, nil
	}
	refused := vm.follow(ctx, r, anyGeneration, seen)
	now, err := vm.text()
	if err == nil && string(now) != string(changed) {
		err = ErrChanged
	}
	if err == nil {
		err = durable.Rewrite(vm.File, before)
	}
	if err != nil {
		return fmt.Sprintf("the configuration %s keeps this change, and was not put back: %v", vm.File, err)
	}
	if refused == nil {
		_ = vm.follow(ctx, r, int64(read), seen) // if it doesn't, it has no time for the next change either
	}
	return "the configuration is as it was"
}

// startedWith reports whether a VM was started with a disk of a serial number.
func startedWith(running *prepare.VM, serial string) bool {
	is := func(d vmspec.Drive) bool { return d.Serial == serial }
	return slices.ContainsFunc(running.Spec.WithoutNBD().Drives, is)
}

// driveOf returns what a runner reports of a disk that comes and goes; nil if it reports nothing.
func driveOf(s *status.Status, serial string) *status.Drive {
	i := slices.IndexFunc(s.Drives, func(d status.Drive) bool { return d.Name == serial })
	if i < 0 {
		return nil
	}
	return &s.Drives[i]
}
