package disk

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// Reasons for phases.
const (
	ReasonProvisioning = "Provisioning"        // the volume is being created
	ReasonConsumer     = "NoConsumer"          // the volume is created for the first pod
	reasonNoClass      = "StorageClassMissing" // no default class, or the named class is missing
	ReasonRefused      = "Refused"             // by the API server
	ReasonQuota        = "QuotaExceeded"
	reasonClaimTaken   = "ClaimNameTaken"
	reasonOldClaim     = "WaitingForOldObject"
	reasonClaimDeleted = "ClaimDeleted"
	ReasonClaimLost    = "ClaimLost"
	ReasonDeletion     = "Deleted"
	ReasonGrowing      = "Growing"
	ReasonGrowsLater   = "FileSystemResizePending" // Kubernetes' term: a node finishes when a VM uses it
	reasonReady        = "Ready"
	reasonAttached     = "Attached"
	reasonFree         = "Free"
)

// Classes describes the storage classes of the cluster.
type Classes struct {
	// Known reports whether the manager may read storage classes. If not, the other fields are empty.
	Known bool
	// Class is the class of the disk's claim, existing or to be created; nil if there is none.
	Class *storagev1.StorageClass
}

// A Situation is the input for all decisions about a disk.
type Situation struct {
	Disk *v1.VirtualDisk
	// Claim is the claim with the disk's name; nil if it doesn't exist.
	Claim *corev1.PersistentVolumeClaim
	// Gone reports that the claim in the status is definitely gone, or being deleted.
	Gone    bool
	Classes Classes
	// Refused is why the API server refused the last attempt to create or grow the claim; nil if it didn't.
	Refused *Refusal
	// Pod is the pod with the import pod's name; nil if it doesn't exist. Progress is its last answer; nil if it has
	// not answered.
	Pod      *corev1.Pod
	Progress *Progress
	// Secret is the Secret of the disk's source.
	Secret Secret
	// Source is the snapshot to restore the disk from; nil if it doesn't exist.
	Source *v1.VirtualDiskSnapshot
	// From is the disk or image (see AsDisk) to copy; nil if it doesn't exist.
	From *v1.VirtualDisk
	// Exporter is the pod with the export pod's name; nil if it doesn't exist. ExporterGone reports that the pod in the
	// status has definitely ended or is gone. NoExporter is why the API server refused to create the pod; nil if it
	// didn't.
	Exporter     *corev1.Pod
	ExporterGone bool
	NoExporter   *Refusal
	// Wanted reports whether a VM that should run is waiting for the disk.
	Wanted bool
	Now    time.Time
}

// A Refusal is the reason why the API server refused a write.
type Refusal struct{ Reason, Message string }

// A Step is the next action for a disk.
type Step int

// Possible steps.
const (
	Nothing   Step = iota
	Create         // the claim
	Grow           // the claim, to the size of the disk
	Confirm        // that the claim or the export pod is gone
	MakePod        // with a gate, for an import or export
	StartPod       // remove the gate of the recorded pod
	RemovePod      // delete a pod that is not, or no longer, recorded
	Forget         // an export request that has expired
)

// OnFileSystem reports whether the disk is a file in a volume with a file system.
func OnFileSystem(d *v1.VirtualDisk) bool {
	return d.Spec.PersistentVolumeClaim.VolumeMode == corev1.PersistentVolumeFilesystem
}

// AccessMode returns the access mode for the claim of a disk or image: ReadWriteOnce by default.
func AccessMode(d *v1.VirtualDisk) corev1.PersistentVolumeAccessMode {
	return cmp.Or(d.Spec.PersistentVolumeClaim.AccessMode, corev1.ReadWriteOnce)
}

// Next returns the next step for a disk's claim and import.
func Next(s Situation) Step {
	d := s.Disk
	switch {
	case d.DeletionTimestamp != nil, s.Gone:
		return Nothing
	case s.Claim == nil && d.Status.Target.UID != "":
		return Confirm // a lost claim must not be replaced by an empty one
	case s.Claim == nil && s.sourceFault() != nil:
		return Nothing
	case s.Claim == nil && (!s.Classes.Known || s.Classes.Class != nil):
		return Create
	case s.Claim == nil, !s.ownsClaim():
		return Nothing
	case !Whole(d):
		return s.nextOfImport()
	case s.Pod != nil && metav1.IsControlledBy(s.Pod, d) && s.Pod.DeletionTimestamp == nil:
		return RemovePod
	case s.Claim.Status.Phase != corev1.ClaimBound:
		return Nothing
	}
	size := d.Spec.PersistentVolumeClaim.Size
	if !isImage(d) && size.Cmp(*s.Claim.Spec.Resources.Requests.Storage()) > 0 {
		return Grow
	}
	return Nothing
}

// ownsClaim reports whether the disk owns the claim with its name.
func (s Situation) ownsClaim() bool {
	uid := s.Disk.Status.Target.UID
	return metav1.IsControlledBy(s.Claim, s.Disk) && (uid == "" || uid == s.Claim.UID)
}

// StatusOf returns the status of a disk.
func StatusOf(s Situation) v1.VirtualDiskStatus {
	d := s.Disk
	is := v1.VirtualDiskStatus{
		AttachedToVirtualMachines: d.Status.AttachedToVirtualMachines, CopiedBy: d.Status.CopiedBy,
		Untrusted: d.Status.Untrusted,
		Target:    d.Status.Target, Capacity: d.Status.Capacity, ObservedGeneration: d.Generation,
	}
	is.Import, is.Export = s.importOf(), s.exportOf()
	is.Phase, is.Reason, is.Message = s.phaseOf(is.Import)
	switch {
	case is.Import == nil, is.Phase != v1.DiskProvisioning && is.Import.CompletionTime == nil:
	case is.Import.CompletionTime != nil:
		is.Progress = formatPercent(100)
	case s.Progress != nil:
		is.Progress = formatPercent(s.Progress.Percent)
	case is.Import.Pod == s.importStatus().Pod && is.Import.Pod != "":
		is.Progress = d.Status.Progress
	}
	if is.Untrusted == "" && d.Status.Target.UID == "" {
		is.Untrusted = s.inheritsFrom()
	}
	if s.Claim != nil && s.ownsClaim() {
		is.Target = v1.DiskTarget{PersistentVolumeClaimName: s.Claim.Name, UID: s.Claim.UID}
		is.Capacity = ""
		if capacity, has := s.Claim.Status.Capacity[corev1.ResourceStorage]; has {
			is.Capacity = capacity.String()
		}
	}
	is.Conditions = s.conditionsFor(is)
	return is
}

// phaseOf returns the phase of a disk, with its reason and message.
func (s Situation) phaseOf(is *v1.DiskImport) (phase v1.DiskPhase, reason, message string) {
	d, name, noun := s.Disk, ClaimOf(s.Disk), s.nounForPeople()
	switch {
	case d.DeletionTimestamp != nil:
		return v1.DiskTerminating, ReasonDeletion, "the " + noun + " is being deleted"
	case s.Gone:
		return v1.DiskFailed, ReasonClaimLost, fmt.Sprintf("the claim %s is gone, and most likely its data too: "+
			"delete the %s, and create it again", name, noun)
	case s.Claim == nil && s.sourceFault() != nil:
		why := s.sourceFault()
		return v1.DiskPending, why.Reason, why.Message
	case s.Claim == nil && s.Refused != nil:
		return v1.DiskPending, s.Refused.Reason, s.Refused.Message
	case s.Claim == nil && s.Classes.Known && s.Classes.Class == nil:
		return v1.DiskPending, reasonNoClass, s.noClass()
	case s.Claim == nil:
		return v1.DiskPending, ReasonProvisioning, fmt.Sprintf("the claim %s is being created", name)
	case Owner(s.Claim) == d.Name && !metav1.IsControlledBy(s.Claim, d):
		return v1.DiskPending, reasonOldClaim, fmt.Sprintf("the claim %s belongs to the %s of the same name that was "+
			"deleted: waiting until it is gone", name, noun)
	case !metav1.IsControlledBy(s.Claim, d):
		return v1.DiskFailed, reasonClaimTaken, fmt.Sprintf("there is a claim %s already, which is not this %[2]s's: "+
			"delete the claim, or give the %[2]s another name", name, noun)
	case !s.ownsClaim():
		return v1.DiskFailed, ReasonClaimLost, fmt.Sprintf("the claim %s is not the claim that was created for this %[2]s: "+
			"delete the %[2]s, and create it again", name, noun)
	case s.Claim.DeletionTimestamp != nil:
		return v1.DiskFailed, reasonClaimDeleted, fmt.Sprintf("the claim %s is being deleted, which cannot be undone, "+
			"and the data with it when no pod has it any more: copy the data, or set the reclaim policy of its volume to Retain "+
			"before (kubectl patch pv)", name)
	}
	if is != nil && is.CompletionTime == nil {
		return s.importPhase(is)
	}
	return s.boundPhase()
}

// boundPhase returns the phase that follows from the state of the disk's claim.
func (s Situation) boundPhase() (phase v1.DiskPhase, reason, message string) {
	switch s.Claim.Status.Phase {
	case corev1.ClaimLost:
		return v1.DiskFailed, ReasonClaimLost, fmt.Sprintf("the volume of the claim %s is gone: delete the %s, and create it again",
			s.Claim.Name, s.nounForPeople())
	case corev1.ClaimBound:
		switch {
		case s.Refused != nil:
			return v1.DiskReady, s.Refused.Reason, s.Refused.Message
		case s.isVolumeSmaller() && !isImage(s.Disk):
			return v1.DiskResizing, s.growthReason(), s.growthText()
		}
		return v1.DiskReady, "", ""
	}
	if s.waitsForPod() {
		return v1.DiskWaiting, ReasonConsumer, "the volume is created at the first start of a VM that uses the " +
			s.nounForPeople()
	}
	return v1.DiskPending, ReasonProvisioning, fmt.Sprintf("the claim %s has no volume yet: if it stays so, the events "+
		"show the reason (kubectl describe pvc %[1]s)", s.Claim.Name)
}

// waitsForPod reports whether the volume is only created for the first pod. It returns true if the manager may not read
// storage classes: the import pod can then wait for the volume, or the volume for the pod.
func (s Situation) waitsForPod() bool {
	if !s.Classes.Known {
		return true
	}
	c := s.Classes.Class
	return c != nil && c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// isVolumeSmaller reports whether the volume is smaller than the requested size of the disk.
func (s Situation) isVolumeSmaller() bool {
	capacity := s.Claim.Status.Capacity[corev1.ResourceStorage]
	return capacity.Cmp(s.Disk.Spec.PersistentVolumeClaim.Size) < 0
}

// growthReason returns the reason to show for a growing volume.
func (s Situation) growthReason() string {
	for _, c := range s.Claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && Holder(s.Disk) == "" {
			return ReasonGrowsLater
		}
	}
	return ReasonGrowing
}

func (s Situation) growthText() string {
	capacity := s.Claim.Status.Capacity[corev1.ResourceStorage]
	size := s.Disk.Spec.PersistentVolumeClaim.Size
	text := fmt.Sprintf("the volume grows from %s to %s", capacity.String(), size.String())
	if s.growthReason() == ReasonGrowsLater {
		text += "; the rest is done when a VM that uses the disk starts"
	}
	return text
}

func (s Situation) noClass() string {
	if name := s.Disk.Spec.PersistentVolumeClaim.StorageClassName; name != nil {
		return fmt.Sprintf("there is no storage class %s (spec.persistentVolumeClaim.storageClassName): "+
			"the %s is created when it exists", *name, s.nounForPeople())
	}
	return "the cluster has no default storage class: make another " + s.nounForPeople() + " that names one " +
		"(spec.persistentVolumeClaim.storageClassName, kubectl get storageclass), or ask the administrator"
}

// conditionsFor returns the conditions of a disk with a known phase and claim.
func (s Situation) conditionsFor(is v1.VirtualDiskStatus) []metav1.Condition {
	all := append([]metav1.Condition(nil), s.Disk.Status.Conditions...)
	set := func(name string, holds bool, reason, message string) {
		c := metav1.Condition{
			Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: is.ObservedGeneration, LastTransitionTime: metav1.NewTime(s.Now.Truncate(time.Second)),
		}
		if holds {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&all, c)
	}
	ready := is.Phase == v1.DiskReady || is.Phase == v1.DiskResizing
	if ready {
		set(v1.DiskConditionReady, true, reasonReady, "")
	} else {
		set(v1.DiskConditionReady, false, is.Reason, is.Message)
	}
	switch {
	case isImage(s.Disk):
		return all
	case !ready:
		meta.RemoveStatusCondition(&all, v1.DiskConditionResized)
	case s.isVolumeSmaller():
		set(v1.DiskConditionResized, false, cmp.Or(is.Reason, ReasonGrowing), is.Message)
	default:
		set(v1.DiskConditionResized, true, reasonReady, "")
	}
	setInUse(&all, Holder(s.Disk), is.ObservedGeneration, s.Now)
	return all
}

// setInUse sets the condition that shows which VM uses the disk.
func setInUse(all *[]metav1.Condition, vm string, generation int64, now time.Time) {
	c := metav1.Condition{
		Type: v1.DiskConditionInUse, Status: metav1.ConditionFalse, Reason: reasonFree,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if vm != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonAttached, "attached to the VM "+vm
	}
	meta.SetStatusCondition(all, c)
}

// Size returns the requested size of a disk.
func Size(d *v1.VirtualDisk) resource.Quantity { return d.Spec.PersistentVolumeClaim.Size }
