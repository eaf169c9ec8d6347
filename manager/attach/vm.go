package attach

import (
	"context"
	"slices"
	"strings"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// A Subject is a VM whose disks are attached and detached.
type Subject struct {
	Name string
	// VM is nil if there is none of that name.
	VM *v1.VirtualMachine
	// ConfigMap is that of the runner's configuration; nil if there is none.
	ConfigMap *objects.Metadata
}

// Attached are the disks that a VM has, or is to have, while its guest runs.
type Attached struct {
	// Drives are to be in its configuration.
	Drives objects.Drives
	// Kept are the disks that must not be taken from the VM.
	Kept []string
	// Refs are what is known of them, for the VM's status.
	Refs []v1.BlockDeviceStatusRef
	// Unknown means that the configuration must stay as it is.
	Unknown bool
	// TLSVersion is that of the Secret that the pod is to notice; "" for none.
	TLSVersion string
}

// Attach attaches disks to a VM, and detaches them, as far as possible. What it returns is to be
// written into the VM's configuration, and then to be passed to Wrote. A VM that is gone has none.
func (c *Controller) Attach(ctx context.Context, s Subject) (got Attached, did decide.Report) {
	r := round{Controller: c, ctx: ctx, Subject: s, did: &did}
	if s.VM != nil {
		r.memory = c.memory(s.Name, s.VM.UID)
		r.drives = objects.DrivesOf(s.ConfigMap)
		if s.ConfigMap == nil || objects.VersionOf(s.ConfigMap) < r.memory.version {
			r.drives = r.memory.drives
		}
	}
	got.Drives = r.drives
	if err := c.book.Listed(); err != nil {
		for _, a := range r.drives.All {
			got.Kept = append(got.Kept, a.Disk)
		}
		if len(got.Kept) > 0 {
			did.RetryAt(c.opts.Now().Add(unlistedRetry))
		}
		return got, did
	}
	all, err := c.book.Of(s.Name)
	if err != nil {
		got.Unknown = true
		did.Stop(nil, err)
		return got, did
	}
	disks := r.concerned(all)
	if len(disks) == 0 {
		if s.VM == nil {
			c.forget(s.Name)
		}
		return got, did
	}
	if r.pod, err = c.opts.VMs.Pod(s.Name); err != nil {
		got.Unknown = true
		did.Stop(nil, err)
		return got, did
	}
	var drives []objects.AttachedDrive
	for _, name := range disks {
		one := r.disk(name, all)
		if drive := one.drive(); drive != nil {
			drives = append(drives, *drive)
		}
		if one.plan.Take || one.plan.Export || one.Export.Exists {
			got.Kept = append(got.Kept, name)
		}
		if s.VM != nil && (one.plan.Drive || one.Drive.State != attachment.DriveNone) {
			got.Refs = append(got.Refs, one.ref())
		}
	}
	got.Drives = r.drives.Next(drives, c.opts.Now().UnixMilli())
	if s.VM != nil {
		got.TLSVersion = r.memory.tls
	}
	return got, did
}

// Wrote notes that drives have been written into a VM's configuration, of a version of its
// ConfigMap, which the watch brings later.
func (c *Controller) Wrote(vm *v1.VirtualMachine, drives objects.Drives, version uint64) {
	if drives.Revision == 0 {
		return
	}
	m := c.memory(vm.Name, vm.UID)
	m.drives, m.version = drives, version
}

// concerned returns the disks that are to be looked at: those of attachments, those that are
// exported to the VM, and those whose drives are in its configuration.
func (r *round) concerned(all []*v1.VirtualMachineBlockDeviceAttachment) []string {
	var disks []string
	for _, a := range all {
		disks = append(disks, a.Spec.BlockDeviceRef.Name)
	}
	for _, export := range r.book.Exports(r.Name) {
		disks = append(disks, objects.ExportedDisk(export))
	}
	for _, a := range r.drives.All {
		disks = append(disks, a.Disk)
	}
	slices.Sort(disks)
	return slices.Compact(disks)
}

// of returns the attachments of a disk, the oldest first.
func of(disk string, all []*v1.VirtualMachineBlockDeviceAttachment) []*v1.VirtualMachineBlockDeviceAttachment {
	var some []*v1.VirtualMachineBlockDeviceAttachment
	for _, a := range all {
		if a.Spec.BlockDeviceRef.Name == disk {
			some = append(some, a)
		}
	}
	slices.SortFunc(some, func(a, b *v1.VirtualMachineBlockDeviceAttachment) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return some
}
