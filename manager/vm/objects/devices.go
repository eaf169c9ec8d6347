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

// DeviceRef names a VM's disk that outlives the VM, or an image.
type DeviceRef struct {
	Kind v1.BlockDeviceKind
	Name string
	// Path of the VM's field with this name.
	Path string

	bootindex *int
}

// String returns kind and name: "VirtualDisk/data".
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

// DeviceRefs returns the VM's disks that outlive the VM: first those in vm.disks, then blockDeviceRefs in their
// order.
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
	boot := bootIndexes(vm)
	for i, r := range vm.Spec.BlockDeviceRefs {
		all = append(all, DeviceRef{
			Kind: r.Kind, Name: r.Name, Path: fmt.Sprintf("spec.blockDeviceRefs[%d]", i), bootindex: boot[i],
		})
	}
	return all
}

// bootIndexes returns the boot index of each of the blockDeviceRefs. They follow the disks of vm.disks with a boot
// index, in the order of the list. If any of them has a bootOrder, only entries with a bootOrder get an index, in
// this order.
func bootIndexes(vm *v1.VirtualMachine) []*int {
	refs := vm.Spec.BlockDeviceRefs
	first := 0
	for _, d := range vm.Spec.VM.Disks {
		if d.Bootindex != nil {
			first = max(first, int(*d.Bootindex)+1)
		}
	}
	var order []int // positions in refs
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

// Device is a VM's disk in its actual state.
type Device struct {
	DeviceRef

	// OnFileSystem is set if the disk is a file in its volume. The file has Size when it is complete.
	OnFileSystem bool
	Size         resource.Quantity
	// Claim that the pod mounts. CD is set for the image of a CD.
	Claim string
	CD    bool
	// Untrusted is the reason why the files in the volume are not trusted; "" if they are trusted.
	Untrusted string
	// Exported is set if the disk was attached while the guest runs, so that the pod doesn't mount it.
	Exported bool
}

// namedDevices returns the disks that a VM names, with the known details of each. A disk without details is treated as
// a block device, which is the default for disks.
func namedDevices(vm *v1.VirtualMachine, known []Device) []Device {
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

// DeviceClaims returns the claims of the disks that a VM names, for its pod. They belong to the disks, and are not
// changed for the VM.
func DeviceClaims(vm *v1.VirtualMachine, known []Device) []Claim {
	var all []Claim
	for _, d := range namedDevices(vm, known) {
		c := Claim{
			Name: cmp.Or(d.Claim, disk.ClaimName(d.Name)), Volume: d.Volume(), Path: d.Path, Untrusted: d.Untrusted,
		}
		if d.Kind.IsImage() {
			c.Name, c.readOnly = cmp.Or(d.Claim, noClaim), true
		}
		if d.OnFileSystem {
			c.mount = path.Join(diskDir, d.Volume())
		}
		all = append(all, c)
	}
	return all
}

// noClaim replaces the claim of a missing image. This claim name is never used for an image.
const noClaim = "vi-image-is-missing"

// HasVolume reports whether a pod has a volume with this name. A disk's volume is named after the disk, regardless
// of its claim.
func HasVolume(pod *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// Mounts reports whether a pod uses a claim.
func Mounts(pod *corev1.PodSpec, claim string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// Writes reports whether a pod uses a claim with write access.
func Writes(pod *corev1.PodSpec, claim string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		c := v.PersistentVolumeClaim
		return c != nil && c.ClaimName == claim && !c.ReadOnly
	})
}

// Taint returns why the files that a VM leaves in the volumes of its disks are not trusted, or "" if they are
// trusted.
func Taint(vm *v1.VirtualMachine, s Settings) string {
	if rightsOf(vm, s).beyondRestricted() {
		return "" // it doesn't run unless it is trusted
	}
	return untrustedPart(vm, s)
}

// driveSpec returns the drive of a device.
func (d Device) driveSpec() vmspec.Drive {
	if d.Kind.IsImage() {
		return d.imageDrive()
	}
	drive := vmspec.Drive{Bootindex: d.bootindex, Serial: d.Serial()}
	if d.OnFileSystem {
		drive.File, drive.Size = path.Join(diskDir, d.Volume(), disk.FileName), vmspec.Bytes(d.Size.Value()).WholeMiB()
	} else {
		drive.Resource = "/dev/" + d.Volume()
	}
	return drive
}

// imageDrive returns the drive of an image. Other VMs may use the image at the same time.
func (d Device) imageDrive() vmspec.Drive {
	drive := vmspec.Drive{Bootindex: d.bootindex, Serial: d.Serial()}
	file := "/dev/" + d.Volume()
	if d.OnFileSystem {
		file = path.Join(diskDir, d.Volume(), disk.FileName)
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

// Serial returns the serial number that the guest sees: the name of a disk, or the volume name of an image, which
// differs from all disk names. If the name is too long, it returns "", and the VM type decides.
func (r DeviceRef) Serial() string {
	if r.Kind.IsImage() {
		return serialOf(r.Volume())
	}
	return serialOf(r.Name)
}

// serialOf returns the name as a serial number, or "" if it is too long.
func serialOf(name string) string {
	if len(name) > vmspec.LongestSerial {
		return ""
	}
	return name
}
