package disk

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// An Answer is the decision on a VM's request for a disk.
type Answer int

// Possible answers.
const (
	Has    Answer = iota // the VM has the disk
	Take                 // the VM may use it once the disk's status records the VM: see Lock
	Wait                 // not yet; resolves itself, or when another VM stops
	Refuse               // not until someone acts
)

// Reasons why a VM can't use a disk, in addition to the reasons in the disk's status.
const (
	ReasonMissing  = "DiskMissing"
	ReasonInUse    = "DiskInUse"
	ReasonCopied   = "DiskIsCopied"
	ReasonNotReady = "DiskNotReady"
	ReasonFailed   = "DiskFailed"
	ReasonDeleted  = "DiskDeleted"
)

// ForVM decides whether a VM that starts may use a disk; d is nil if the disk doesn't exist. The message includes when
// the VM will start.
func ForVM(vm, name string, d *v1.VirtualDisk) (what Answer, reason, message string) {
	what, reason, message = Available(vm, name, d)
	switch reason {
	case ReasonMissing:
		message += ": the VM starts when it is created"
	case ReasonCopied:
		message += ": the VM starts when that is done"
	case ReasonInUse:
		message += ": this VM starts when the other VM has stopped"
	}
	return what, reason, message
}

// Available decides whether a VM may use a disk; d is nil if the disk doesn't exist. Only this function makes that
// decision. A claim belongs to one VM at a time, even if its access modes allow more.
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

// ForCopy returns the status that the disk from needs before a pod may copy it to the disk or image to. may reports
// whether from already has that status; otherwise the pod must not start until it is written. If from can't be copied,
// for example because a VM uses it, ForCopy returns the reason.
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

// CopyPod returns the name of the pod that makes a copy.
func CopyPod(by v1.DiskCopy) string {
	if by.Kind == v1.KindVirtualImage {
		return ImagePodName(by.Name)
	}
	return PodName(by.Name)
}

// Ended reports whether the pod with this UID has ended or been replaced. Other pods may have had the same name.
func Ended(pod *corev1.Pod, uid types.UID) bool { return pod.UID != uid || Finished(pod) }

// Copied returns the status of a disk without the copies that have ended.
func Copied(d *v1.VirtualDisk, ended func(v1.DiskCopy) bool) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.CopiedBy = slices.DeleteFunc(s.CopiedBy, ended)
	if len(s.CopiedBy) == 0 {
		s.CopiedBy = nil
	}
	return s
}

// Holder returns the VM that uses a disk; "" if it is free.
func Holder(d *v1.VirtualDisk) string {
	for _, vm := range d.Status.AttachedToVirtualMachines {
		return vm.Name
	}
	return ""
}

// Lock returns the status of a disk that is attached to a VM. untrusted is why the files that the VM leaves in the
// volume must not be trusted; "" if they are trusted.
func Lock(d *v1.VirtualDisk, vm, untrusted string, now time.Time) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.AttachedToVirtualMachines = []v1.AttachedVirtualMachine{{Name: vm}}
	if s.Untrusted == "" && OnFileSystem(d) {
		s.Untrusted = untrusted
	}
	setInUse(&s.Conditions, vm, s.ObservedGeneration, now)
	return s
}

// Unlock returns the status of a disk that is detached from its VM.
func Unlock(d *v1.VirtualDisk, now time.Time) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.AttachedToVirtualMachines = nil
	setInUse(&s.Conditions, "", s.ObservedGeneration, now)
	return s
}
