package disk

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
)

// Reasons why a disk can't be created as a copy.
const (
	ReasonSourceMissing  = "SourceMissing"
	ReasonSourceNotReady = "SourceNotReady"
	ReasonSourceInUse    = "SourceInUse"
	ReasonSmaller        = "SmallerThanSource"
)

// isCopy reports whether a disk is a copy of another disk, an image or a claim: see
// docs/decisions/0125-copies-of-disks.md.
func isCopy(d *v1.VirtualDisk) bool {
	return d.Spec.DataSource != nil && d.Spec.DataSource.ObjectRef != nil && !isRestored(d)
}

// copyFault returns why the disk can't be copied now; nil if it can, or if it is not a copy.
func (s Situation) copyFault() *Refusal {
	switch {
	case !isCopy(s.Disk):
		return nil
	case s.From == nil:
		ref := s.Disk.Spec.DataSource.ObjectRef
		return &Refusal{ReasonSourceMissing, fmt.Sprintf("there is no %s %s (spec.dataSource.objectRef): "+
			"the %s is created when it exists", ref.Kind, ref.Name, s.nounForPeople())}
	}
	return copyFault(s.From, s.Disk)
}

func copyFault(from, to *v1.VirtualDisk) *Refusal {
	what := fmt.Sprintf("the %s %s", kindOf(from), from.Name)
	if s := to.Spec.DataSource; s != nil && s.ObjectRef != nil {
		what = fmt.Sprintf("the %s %s", s.ObjectRef.Kind, s.ObjectRef.Name) // the name that the user wrote
	}
	phase := from.Status.Phase
	switch {
	case from.DeletionTimestamp != nil:
		return &Refusal{ReasonSourceMissing, what + " is being deleted (spec.dataSource.objectRef)"}
	case isClaim(from) && from.Status.Reason != "":
		return &Refusal{from.Status.Reason, from.Status.Message}
	case phase != v1.DiskReady && phase != v1.DiskResizing, from.Status.Target.UID == "", !Whole(from):
		return &Refusal{ReasonSourceNotReady, fmt.Sprintf("%s is %s: %s", what, cmp.Or(string(phase), "new"),
			cmp.Or(from.Status.Message, "it is copied when it is Ready"))}
	case Holder(from) != "":
		return &Refusal{ReasonSourceInUse, fmt.Sprintf("%s is attached to the VM %s: the copy starts when no VM uses it; "+
			"a disk can be created from a VirtualDiskSnapshot now", what, Holder(from))}
	}
	least, size := leastFor(from), Size(to)
	if size.Cmp(least) < 0 {
		return &Refusal{ReasonSmaller, fmt.Sprintf("spec.persistentVolumeClaim.size: %s has %s, more than the %s of this disk: "+
			"make it as large", what, least.String(), size.String())}
	}
	return nil
}

// leastFor returns the minimum size of a copy: the virtual size of an image, or the capacity of a disk's volume.
func leastFor(from *v1.VirtualDisk) resource.Quantity {
	if n := copyLength(from); n > 0 {
		return *resource.NewQuantity((n+mebibyte-1)/mebibyte*mebibyte, resource.BinarySI)
	}
	least := Size(from)
	if has, err := resource.ParseQuantity(from.Status.Capacity); err == nil && has.Cmp(least) > 0 {
		least = has
	}
	return least
}

// copyLength returns how many bytes of an image's volume contain data; 0 means the whole volume.
func copyLength(from *v1.VirtualDisk) int64 {
	if !isImage(from) || from.Status.Import == nil {
		return 0
	}
	return from.Status.Import.VirtualSize
}

// beginCopy records the UID of the source claim, and the format of the source image.
func (s Situation) beginCopy(is *v1.DiskImport) {
	if !isCopy(s.Disk) || s.From == nil {
		return
	}
	is.Source = s.From.Status.Target.UID
	if of := s.From.Status.Import; of != nil {
		is.Format = of.Format
	}
	is.Format = cmp.Or(is.Format, "raw")
}

// changedOutcome returns a failure if the source changed during the copy; nil otherwise. The source claim may have been
// deleted and recreated before the pod mounted it.
func (s Situation) changedOutcome(is *v1.DiskImport) *Outcome {
	if !isCopy(s.Disk) {
		return nil
	}
	if s.From != nil && s.From.Status.Target.UID == is.Source {
		return s.disturbedOutcome()
	}
	ref := s.Disk.Spec.DataSource.ObjectRef
	return &Outcome{
		Reason:  ReasonSourceChanged,
		Message: fmt.Sprintf("the %s %s was deleted during the copy", ref.Kind, ref.Name),
	}
}

// awaitsUpload reports whether a running pod is waiting for an upload. It assumes so if the pod hasn't answered yet.
func (s Situation) awaitsUpload() bool {
	return s.Disk.Spec.DataSource.Type == v1.DiskSourceUpload && (s.Progress == nil || s.Progress.Waits)
}

func (s Situation) uploadText() string {
	text := fmt.Sprintf("send the image: kubectl vmop %s upload %s FILE", s.nounForPeople(), s.Disk.Name)
	if s.Progress != nil && s.Progress.Message != "" {
		text += "; the last upload has failed: " + strings.TrimSuffix(s.Progress.Message, ".")
	}
	return text
}
