package disk

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppName is the value of the label app.kubernetes.io/name of the claims of disks. Those of VMs
// have another one: no VM takes the claim of a disk for its own.
const AppName = "vm-disk"

// ClaimName returns the name of the claim of a disk.
func ClaimName(disk string) string { return "vd-" + disk }

// FileName is the name of a disk in a volume with a file system.
const FileName = "disk.img"

// VolumeName returns the name of a disk's volume in a pod. No other one's ends so.
func VolumeName(disk string) string { return disk + "-vd" }

// Owner returns the name of the disk that owns an object; "" if none does.
func Owner(object metav1.Object) string {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != "VirtualDisk" {
		return ""
	}
	return owner.Name
}
