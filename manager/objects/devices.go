package objects

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/vmspec"
)

// A DeviceRef names a disk of a VM that outlives it, or an image.
type DeviceRef struct {
	Kind v1.BlockDeviceKind
	Name string
	// Path of the field that names it.
	Path string

	bootindex *int
}

// String returns the kind and the name: "VirtualDisk/data".
func (r DeviceRef) String() string { return string(r.Kind) + "/" + r.Name }

// Volume returns the name of the volume in the pod.
func (r DeviceRef) Volume() string {
	switch r.Kind {
	case v1.KindVirtualImage:
		return disk.ImageVolumeName(r.Name)
	case v1.KindClusterVirtualImage:
		return disk.ClusterVolumeName(r.Name)
	case v1.KindVirtualDisk:
	}
	return disk.VolumeName(r.Name)
}

// DeviceRefs returns the disks of a VM that outlive it: those among vm.disks, then the others in
// the order in which they are written.
func DeviceRefs(vm *v1.VirtualMachine) []DeviceRef {
	var all []DeviceRef
	for i, d := range vm.Spec.VM.Disks {
		if d.VirtualDisk == nil {
			continue
		}
		ref := DeviceRef{
			Kind: v1.KindVirtualDisk, Name: d.VirtualDisk.Name, Path: fmt.Sprintf("spec.vm.disks[%d].virtualDisk", i),
		}
		if d.Bootindex != nil {
			ref.bootindex = new(int(*d.Bootindex))
		}
		all = append(all, ref)
	}
	boot := bootindexes(vm)
	for i, r := range vm.Spec.BlockDeviceRefs {
		all = append(all, DeviceRef{
			Kind: r.Kind, Name: r.Name, Path: fmt.Sprintf("spec.blockDeviceRefs[%d]", i), bootindex: boot[i],
		})
	}
	return all
}

// bootindexes returns that of each of the blockDeviceRefs. They come after what of vm.disks has
// one, in the order of the list, or, if there is a bootOrder, only those that have one, by it.
func bootindexes(vm *v1.VirtualMachine) []*int {
	refs := vm.Spec.BlockDeviceRefs
	first := 0
	for _, d := range vm.Spec.VM.Disks {
		if d.Bootindex != nil {
			first = max(first, int(*d.Bootindex)+1)
		}
	}
	var order []int // places in refs
	for i, r := range refs {
		if r.BootOrder != nil {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		for i := range refs {
			order = append(order, i)
		}
	} else {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(*refs[a].BootOrder, *refs[b].BootOrder) })
	}
	all := make([]*int, len(refs))
	for n, place := range order {
		all[place] = new(first + n)
	}
	return all
}

// A Device is a disk that a VM has, as it is.
type Device struct {
	DeviceRef

	// OnFileSystem: it is a file in its volume, of Size at the end.
	OnFileSystem bool
	Size         resource.Quantity
	// Claim that the pod has. CD: it is that of a CD.
	Claim string
	CD    bool
	// Untrusted says why the files in the volume are not trusted; "" if they are.
	Untrusted string
	// Exported: it is attached while the guest runs, and the pod doesn't have it.
	Exported bool
}

// devices returns the disks that a VM names, with what is known of each of them; those of which
// nothing is known are block devices, as disks are that don't say otherwise.
func devices(vm *v1.VirtualMachine, known []Device) []Device {
	var all []Device
	for _, ref := range DeviceRefs(vm) {
		d := Device{DeviceRef: ref}
		is := func(k Device) bool { return k.Kind == ref.Kind && k.Name == ref.Name }
		if i := slices.IndexFunc(known, is); i >= 0 {
			d = known[i]
			d.DeviceRef = ref
		}
		all = append(all, d)
	}
	return all
}

// DeviceClaims returns the claims of the disks that a VM names, for its pod. They belong to the
// disks: nothing is written into them for the VM.
func DeviceClaims(vm *v1.VirtualMachine, known []Device) []Claim {
	var all []Claim
	for _, d := range devices(vm, known) {
		c := Claim{
			Name: cmp.Or(d.Claim, disk.ClaimName(d.Name)), Volume: d.Volume(), Path: d.Path, Untrusted: d.Untrusted,
		}
		if d.Kind.IsImage() {
			c.Name, c.readOnly = cmp.Or(d.Claim, noClaim), true
		}
		if d.OnFileSystem {
			c.mount = path.Join(DiskDir, d.Volume())
		}
		all = append(all, c)
	}
	return all
}

// noClaim is in the place of the claim of an image that isn't there. No image has a claim of this name.
const noClaim = "vi-image-is-missing"

// HasVolume reports whether a pod has a volume of a name: that of a disk has one by it, whichever claim the disk has.
func HasVolume(pod *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// Mounts reports whether a pod has a claim.
func Mounts(pod *corev1.PodSpec, claim string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// Writes reports whether a pod has a claim, and may write to it.
func Writes(pod *corev1.PodSpec, claim string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		c := v.PersistentVolumeClaim
		return c != nil && c.ClaimName == claim && !c.ReadOnly
	})
}

// Taint says why what a VM leaves in the volumes of its disks is not trusted; "" if it is.
func Taint(vm *v1.VirtualMachine, s Settings) string {
	if rightsOf(vm, s).beyondRestricted() {
		return "" // it doesn't run if it isn't trusted
	}
	return untrusted(vm, s)
}

// drive returns the drive of a device.
func (d Device) drive() vmspec.Drive {
	if d.Kind.IsImage() {
		return d.imageDrive()
	}
	drive := vmspec.Drive{Bootindex: d.bootindex, Serial: d.Serial()}
	if d.OnFileSystem {
		drive.File, drive.Size = path.Join(DiskDir, d.Volume(), disk.FileName), wholeMiB(d.Size)
	} else {
		drive.Resource = "/dev/" + d.Volume()
	}
	return drive
}

// imageDrive returns the drive of an image, which others may have, too.
func (d Device) imageDrive() vmspec.Drive {
	drive := vmspec.Drive{Bootindex: d.bootindex, Serial: d.Serial()}
	file := "/dev/" + d.Volume()
	if d.OnFileSystem {
		file = path.Join(DiskDir, d.Volume(), disk.FileName)
	}
	switch {
	case d.CD:
		drive.Type, drive.File = vmspec.DriveIDECD, file
	case d.OnFileSystem:
		drive.File, drive.ReadOnly = file, true
	default:
		drive.Resource, drive.ReadOnly = file, true
	}
	return drive
}

// Serial returns the serial number by which the guest knows it: the name of a disk, or that of the volume
// of an image, which no disk has. "" leaves it to the VM type, for a name that is too long for it.
func (r DeviceRef) Serial() string {
	if r.Kind.IsImage() {
		return serialOf(r.Volume())
	}
	return serialOf(r.Name)
}

// serialOf returns the serial number of a name; "" if it is too long for one.
func serialOf(name string) string {
	if len(name) > vmspec.LongestSerial {
		return ""
	}
	return name
}
