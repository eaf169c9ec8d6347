package cluster

import (
	"cmp"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/diskimage"
	"vmop/manager/attachment"
	"vmop/manager/disk"
	"vmop/manager/operation/act"
	"vmop/manager/store"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// missing is the state of a disk that a VM names but that doesn't exist.
const missing = "Missing"

// showVolumes subscribes to changes of disks, images, attachments and snapshots.
func (f *Fleet) showVolumes(v store.Volumes) {
	users := func(kind v1.BlockDeviceKind) func(name string) {
		return func(name string) {
			f.mu.Lock()
			open := f.table != nil
			f.mu.Unlock()
			if open { // otherwise all VMs are decoded anyway
				f.hasChanged(f.opts.Store.UsersOf(objects.DeviceRef{Kind: kind, Name: name})...)
			}
			if of, may := disk.ClusterImageOf(name); open && may && kind == v1.KindVirtualImage {
				f.hasChanged(f.opts.Store.UsersOf(objects.DeviceRef{Kind: v1.KindClusterVirtualImage, Name: of})...)
			}
			f.hasChanged()
		}
	}
	v.Disks.OnChange(users(v1.KindVirtualDisk))
	v.Images.OnChange(users(v1.KindVirtualImage))
	v.Attachments.OnChange(func(vm string) { f.hasChanged(vm) })
	v.Snapshots.OnChange(func(vm string) { f.hasChanged(vm) })
	v.Disks.OnChange(func(name string) { // the VM doesn't name its attached disks
		if d, err := v.Disks.Disk(name); err == nil && d != nil && disk.Holder(d) != "" {
			f.hasChanged(disk.Holder(d))
		}
	})
}

// volumesOf returns the disks of a VM: the disks of its definition in order, then attached disks.
func (f *Fleet) volumesOf(vm *v1.VirtualMachine, up bool) (all []fleet.Volume) {
	own := objects.Disks(vm)
	for i, d := range vm.Spec.VM.Disks {
		switch {
		case d.VolumeClaimTemplate != nil:
			v := fleet.Volume{Kind: fleet.OwnDisk, Name: own[0].Claim, Size: bytesOf(own[0].Size)}
			if own = own[1:]; up {
				v.State = string(v1.DiskReady)
			}
			if from := vm.Spec.DataSource; from != nil {
				v.Source = from.Kind + "/" + from.Name
			}
			all = append(all, v)
		case d.CDROM != nil:
			medium, _, _ := vmspec.Credentials(d.CDROM.Image)
			all = append(all, fleet.Volume{
				Kind: fleet.CDDrive, Name: drivePrefix + strconv.Itoa(i), Source: medium,
			})
		case d.VirtualDisk != nil:
			all = append(all, f.volumeNamed(v1.KindVirtualDisk, d.VirtualDisk.Name))
		}
	}
	for _, ref := range vm.Spec.BlockDeviceRefs {
		all = append(all, f.volumeNamed(ref.Kind, ref.Name))
	}
	attached, err := f.opts.Volumes.Attachments.Of(vm.Name)
	if err != nil {
		f.opts.Log.Error("the attachments of a VM can't be shown", "vm", vm.Name, "err", err)
	}
	for _, a := range attached {
		v := f.volumeNamed(v1.BlockDeviceKind(a.Spec.BlockDeviceRef.Kind), a.Spec.BlockDeviceRef.Name)
		v.Attachment, v.Detaches = a.Name, prefixOf(v.Kind)+v.Name
		if a.Status.Phase != v1.AttachmentAttached {
			v.State, v.Reason, v.Message = string(a.Status.Phase), a.Status.Reason, a.Status.Message
			v.Advice = vmstatus.AdviceFor(v.Reason, attachment.Explanations)
		}
		all = append(all, v)
	}
	return all
}

// prefixOf returns how the name of an attached device begins for users; see deviceOf.
func prefixOf(kind fleet.VolumeKind) string {
	switch kind {
	case fleet.VirtualImage:
		return fleet.ImagePrefix
	case fleet.ClusterVirtualImage:
		return fleet.ClusterImagePrefix
	}
	return ""
}

// volumeNamed returns a disk or image by name. If it doesn't exist, its state is Missing.
func (f *Fleet) volumeNamed(kind v1.BlockDeviceKind, name string) fleet.Volume {
	d, err := f.deviceNamed(kind, name)
	if err != nil {
		f.opts.Log.Error("a disk can't be shown", "kind", kind, "name", name, "err", err)
	}
	if d == nil {
		return fleet.Volume{Kind: fleet.VolumeKind(kind), Name: name, State: missing}
	}
	v := volumeOf(kind, d)
	v.Name = name // a ClusterVirtualImage's stored image has another name
	return v
}

// deviceNamed returns a disk or image (disk.AsDisk, disk.OfCluster); nil if it doesn't exist.
func (f *Fleet) deviceNamed(kind v1.BlockDeviceKind, name string) (*v1.VirtualDisk, error) {
	switch kind {
	case v1.KindVirtualImage:
		return f.opts.Volumes.Images.Disk(name)
	case v1.KindClusterVirtualImage:
		return f.opts.Volumes.Images.OfCluster(name)
	case v1.KindVirtualDisk:
	}
	return f.opts.Volumes.Disks.Disk(name)
}

// volumeOf converts a disk, or an image as a disk (disk.AsDisk), for pages.
func volumeOf(kind v1.BlockDeviceKind, d *v1.VirtualDisk) fleet.Volume {
	s := &d.Status
	v := fleet.Volume{
		Kind: fleet.VolumeKind(kind), Name: d.Name, State: string(cmp.Or(s.Phase, v1.DiskPending)),
		Reason: s.Reason, Message: s.Message, Source: act.SourceOf(d.Spec.DataSource),
		Size: cmp.Or(bytesOf(s.Capacity), d.Spec.PersistentVolumeClaim.Size.Value()),
	}
	if s.Phase == v1.DiskProvisioning {
		v.Progress = s.Progress
	}
	if d.DeletionTimestamp != nil {
		v.State = string(v1.DiskTerminating)
	}
	v.Advice = vmstatus.AdviceFor(v.Reason, disk.Explanations, diskimage.Explanations)
	return v
}

// bytesOf returns a quantity in bytes; 0 if it is invalid.
func bytesOf(quantity string) int64 {
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return 0
	}
	return q.Value()
}
