package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Subject is a VM that disks are attached to and detached from.
type Subject struct {
	Name string
	// VM is nil if it does not exist.
	VM *v1.VirtualMachine
	// ConfigMap is the ConfigMap with the runner's configuration, or nil.
	ConfigMap *objects.Metadata
}

// Attached describes the disks attached to a running guest, now or in the future.
type Attached struct {
	// Drives are the drives for its configuration.
	Drives objects.Drives
	// Kept are the disks that the VM must keep.
	Kept []string
	// Refs are the entries for the VM's status.
	Refs []v1.BlockDeviceStatusRef
	// Unknown means that the configuration must stay unchanged.
	Unknown bool
	// TLSVersion is the version of the Secret that the pod must notice, or "".
	TLSVersion string
}

// Attach attaches and detaches the disks of a VM, as far as possible. The caller must write the result into the
// VM's configuration, and then call Wrote. A deleted VM has no configuration.
func (c *Controller) Attach(ctx context.Context, s Subject) (got Attached, did decide.Report) {
	r := round{Controller: c, ctx: ctx, Subject: s, did: &did}
	if s.VM != nil {
		r.memory = c.memoryOf(s.Name, s.VM.UID)
		r.drives = objects.DrivesOf(s.ConfigMap)
		if s.ConfigMap == nil || objects.VersionOf(s.ConfigMap) < r.memory.version {
			r.drives = r.memory.drives
		}
	}
	got.Drives = r.drives
	if err := c.book.Listed(); err != nil {
		for _, a := range r.drives.All {
			got.keepDisk(a.Ref())
		}
		if len(r.drives.All) > 0 {
			did.RetryAt(c.opts.Now().Add(unlistedRetry))
		}
		return got, did
	}
	all, disks, err := r.devicesToFollow()
	if err != nil {
		got.Unknown = true
		did.Stop(nil, err)
		return got, did
	}
	if len(disks) == 0 {
		if s.VM == nil {
			c.forgetVM(s.Name)
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
		one := r.followDisk(ref, all)
		if drive := one.attachedDrive(); drive != nil {
			drives = append(drives, *drive)
		}
		if one.plan.Take || one.plan.Export || one.Export.Exists {
			got.keepDisk(ref)
		}
		if s.VM != nil && (one.plan.Drive || one.Drive.State != attachment.DriveNone) {
			got.Refs = append(got.Refs, one.statusRef())
		}
	}
	got.Drives = r.drives.Next(drives, c.opts.Now().UnixMilli())
	if s.VM != nil {
		got.TLSVersion = r.memory.tls
	}
	return got, did
}

// Wrote records that drives have been written into a VM's configuration, and the resulting version of its
// ConfigMap. The watch delivers that version later.
func (c *Controller) Wrote(vm *v1.VirtualMachine, drives objects.Drives, version uint64) {
	if drives.Revision == 0 {
		return
	}
	m := c.memoryOf(vm.Name, vm.UID)
	m.drives, m.version = drives, version
}

// keepDisk records that the VM must keep a disk.
func (a *Attached) keepDisk(ref v1.AttachedDeviceRef) {
	if ref.Kind == v1.AttachedDisk {
		a.Kept = append(a.Kept, ref.Name)
	}
}

// devicesToFollow returns the VM's attachments, and the disks and images to check: those with an attachment, with an
// export to the VM, or with a drive in its configuration.
func (r *round) devicesToFollow() (
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
		if export == nil { // it has just ended
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

// attachmentsOf returns the attachments of a disk or image, oldest first.
func attachmentsOf(ref v1.AttachedDeviceRef, all []*v1.VirtualMachineBlockDeviceAttachment) (
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
