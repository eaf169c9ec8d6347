package attach

import (
	"cmp"
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
			got.keep(a.Ref())
		}
		if len(r.drives.All) > 0 {
			did.RetryAt(c.opts.Now().Add(unlistedRetry))
		}
		return got, did
	}
	all, disks, err := r.concerned()
	if err != nil {
		got.Unknown = true
		did.Stop(nil, err)
		return got, did
	}
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
	for _, ref := range disks {
		one := r.disk(ref, all)
		if drive := one.drive(); drive != nil {
			drives = append(drives, *drive)
		}
		if one.plan.Take || one.plan.Export || one.Export.Exists {
			got.keep(ref)
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

// keep notes that a disk must not be taken from the VM.
func (a *Attached) keep(ref v1.AttachedDeviceRef) {
	if ref.Kind == v1.AttachedDisk {
		a.Kept = append(a.Kept, ref.Name)
	}
}

// concerned returns the VM's attachments, and the disks and images that are to be looked at: those of attachments,
// those that are exported to the VM, and those whose drives are in its configuration.
func (r *round) concerned() (
	all []*v1.VirtualMachineBlockDeviceAttachment, refs []v1.AttachedDeviceRef, err error,
) {
	if all, err = r.book.Of(r.Name); err != nil {
		return nil, nil, err
	}
	for _, a := range all {
		refs = append(refs, a.Spec.BlockDeviceRef)
	}
	for _, name := range r.book.Exports(r.Name) {
		export, err := r.book.Export(name)
		if err != nil {
			return nil, nil, err
		}
		if export == nil { // it has ended just now
			continue
		}
		if ref, is := objects.ExportOf(export); is {
			refs = append(refs, ref)
		}
	}
	for _, a := range r.drives.All {
		refs = append(refs, a.Ref())
	}
	slices.SortFunc(refs, func(a, b v1.AttachedDeviceRef) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all, slices.Compact(refs), nil
}

// of returns the attachments of a disk or image, the oldest first.
func of(ref v1.AttachedDeviceRef, all []*v1.VirtualMachineBlockDeviceAttachment) (
	some []*v1.VirtualMachineBlockDeviceAttachment,
) {
	for _, a := range all {
		if a.Spec.BlockDeviceRef == ref {
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
