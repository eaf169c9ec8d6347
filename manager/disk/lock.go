package disk

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// An Answer is what a VM gets that wants to have a disk.
type Answer int

// The answers.
const (
	Has    Answer = iota // it has the disk
	Take                 // it may have it, once the status of the disk says so: see Lock
	Wait                 // not yet, for a reason that goes away by itself or with another VM
	Refuse               // not before someone has done something
)

// Reasons why a VM doesn't get a disk, besides those of the disk.
const (
	ReasonMissing  = "DiskMissing"
	ReasonInUse    = "DiskInUse"
	ReasonCopied   = "DiskIsCopied"
	ReasonNotReady = "DiskNotReady"
	ReasonFailed   = "DiskFailed"
	ReasonDeleted  = "DiskDeleted"
)

// ForVM decides whether a VM may have a disk, nil if there is none, when it starts. The message
// says when it does.
func ForVM(vm, name string, d *v1.VirtualDisk) (what Answer, reason, message string) {
	what, reason, message = Available(vm, name, d)
	switch reason {
	case ReasonMissing:
		message += ": the VM starts when it is created"
	case ReasonCopied:
		message += ": the VM starts when that is done"
	case ReasonInUse:
		message += ": this VM starts when the other one has stopped"
	}
	return what, reason, message
}

// Available decides whether a VM may have a disk, nil if there is none. This is the only place
// where that is decided: a claim has one VM at a time, whatever its access modes.
func Available(vm, name string, d *v1.VirtualDisk) (what Answer, reason, message string) {
	if d == nil {
		return Wait, ReasonMissing, fmt.Sprintf("there is no VirtualDisk %s", name)
	}
	holder := Holder(d)
	if holder != "" && holder != vm {
		return Wait, ReasonInUse, fmt.Sprintf("the VirtualDisk %s is attached to the VM %s", name, holder)
	}
	switch {
	case d.DeletionTimestamp != nil:
		return Refuse, ReasonDeleted, fmt.Sprintf("the VirtualDisk %s is being deleted", name)
	case d.Status.Phase == v1.DiskFailed:
		return Refuse, ReasonFailed, fmt.Sprintf("the VirtualDisk %s: %s", name, d.Status.Message)
	case d.Status.Target.UID == "", d.Status.Phase == v1.DiskPending, !Whole(d):
		return Wait, ReasonNotReady, fmt.Sprintf("the VirtualDisk %s: %s", name, d.Status.Message)
	case holder == vm:
		return Has, "", ""
	case len(d.Status.CopiedBy) > 0:
		by := d.Status.CopiedBy[0]
		return Wait, ReasonCopied, fmt.Sprintf("the VirtualDisk %s is being copied into the %s %s",
			name, by.Kind, by.Name)
	case Exported(d):
		return Wait, ReasonCopied, fmt.Sprintf("the VirtualDisk %s is being exported", name)
	}
	return Take, "", ""
}

// ForCopy returns the status of a disk with which a pod may copy it into another one, or an image, and
// that differs only if may is false: then the pod must not start before it is written.
// A VM that has the disk is a Refusal.
func ForCopy(from, to *v1.VirtualDisk, pod types.UID) (s v1.VirtualDiskStatus, may bool, why *Refusal) {
	s = *from.Status.DeepCopy()
	for _, by := range s.CopiedBy {
		if by.Pod == pod {
			return s, true, nil
		}
	}
	if why = copyFault(from, to); why != nil {
		return s, false, why
	}
	s.CopiedBy = append(s.CopiedBy, v1.DiskCopy{Kind: kindOf(to), Name: to.Name, Pod: pod})
	return s, false, nil
}

// CopyPod returns the name of the pod that copies a disk.
func CopyPod(by v1.DiskCopy) string {
	if by.Kind == v1.KindVirtualImage {
		return ImagePodName(by.Name)
	}
	return PodName(by.Name)
}

// Ended reports whether a pod, of a name that others may have had, doesn't read what the pod with this uid
// was to copy, and never will.
func Ended(pod *corev1.Pod, uid types.UID) bool { return pod.UID != uid || Finished(pod) }

// Copied returns the status of a disk that pods no longer read.
func Copied(d *v1.VirtualDisk, ended func(v1.DiskCopy) bool) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.CopiedBy = slices.DeleteFunc(s.CopiedBy, ended)
	if len(s.CopiedBy) == 0 {
		s.CopiedBy = nil
	}
	return s
}

// Holder returns the VM that has a disk; "" if none has.
func Holder(d *v1.VirtualDisk) string {
	for _, vm := range d.Status.AttachedToVirtualMachines {
		return vm.Name
	}
	return ""
}

// Lock returns the status with which a VM has a disk. untrusted says why what the VM leaves in
// the files of a volume is not trusted; "" if it is.
func Lock(d *v1.VirtualDisk, vm, untrusted string, now time.Time) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.AttachedToVirtualMachines = []v1.AttachedVirtualMachine{{Name: vm}}
	if s.Untrusted == "" && OnFileSystem(d) {
		s.Untrusted = untrusted
	}
	setInUse(&s.Conditions, vm, s.ObservedGeneration, now)
	return s
}

// Unlock returns the status with which no VM has a disk.
func Unlock(d *v1.VirtualDisk, now time.Time) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.AttachedToVirtualMachines = nil
	setInUse(&s.Conditions, "", s.ObservedGeneration, now)
	return s
}
