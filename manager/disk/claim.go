package disk

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// ReasonSourceForbidden means that the claim's data must not be copied.
const ReasonSourceForbidden = "SourceForbidden"

// SourceClaim returns the name of the user's own claim that a disk or image copies; "" if its source is not a claim.
func SourceClaim(d *v1.VirtualDisk) string {
	if s := d.Spec.DataSource; s != nil && s.ObjectRef != nil && s.ObjectRef.Kind == v1.KindClaim {
		return s.ObjectRef.Name
	}
	return ""
}

// CopiesClaim returns the name of the user's own claim that a pod of this disk or image is copying or about to copy; ""
// if there is no such pod.
func CopiesClaim(d *v1.VirtualDisk) string {
	if is := d.Status.Import; is == nil || is.Pod == "" || is.CompletionTime != nil {
		return ""
	}
	return SourceClaim(d)
}

// ClaimAsDisk wraps a claim that belongs to no disk, so that it can be copied like a disk. It can be copied unless its
// status has a reason. user names the writer of the claim, such as "the pod web-0"; "" means that there is no writer.
//
// See docs/decisions/0165-copies-of-claims.md.
func ClaimAsDisk(c *corev1.PersistentVolumeClaim, user string) *v1.VirtualDisk {
	d := &v1.VirtualDisk{
		TypeMeta: metav1.TypeMeta{Kind: v1.KindClaim}, ObjectMeta: c.ObjectMeta,
		Status: v1.VirtualDiskStatus{
			Phase: v1.DiskReady, Target: v1.DiskTarget{PersistentVolumeClaimName: c.Name, UID: c.UID},
		},
	}
	d.Spec.PersistentVolumeClaim.Size = c.Status.Capacity[corev1.ResourceStorage]
	d.Spec.PersistentVolumeClaim.VolumeMode = corev1.PersistentVolumeFilesystem
	if c.Spec.VolumeMode != nil {
		d.Spec.PersistentVolumeClaim.VolumeMode = *c.Spec.VolumeMode
	}
	is, what := &d.Status, "the PersistentVolumeClaim "+c.Name
	switch of := Owner(c); {
	case of != "":
		is.Reason = ReasonSourceForbidden
		is.Message = fmt.Sprintf("%s belongs to the disk or image %s: name that instead (spec.dataSource.objectRef)",
			what, of)
	case c.Labels[v1.LabelDataSource] != "true":
		is.Reason = ReasonSourceForbidden
		is.Message = fmt.Sprintf("%s isn't marked as one that may be copied: kubectl label pvc %s %s=true", what, c.Name,
			v1.LabelDataSource)
	case c.Status.Phase != corev1.ClaimBound:
		is.Reason = ReasonSourceNotReady
		is.Message = fmt.Sprintf("%s is %s: it is copied when it has a volume", what, c.Status.Phase)
	case user != "":
		is.Reason = ReasonSourceInUse
		is.Message = fmt.Sprintf("%s is in use by %s: the copy starts when no pod writes to it", what, user)
	}
	return d
}

// isClaim reports whether d wraps a claim: see ClaimAsDisk.
func isClaim(d *v1.VirtualDisk) bool { return d.Kind == v1.KindClaim }

// disturbedOutcome returns a failure if the source claim may have been written during the copy; nil otherwise.
func (s Situation) disturbedOutcome() *Outcome {
	if s.From == nil || !isClaim(s.From) || s.From.Status.Reason != ReasonSourceInUse {
		return nil
	}
	return &Outcome{
		Reason: ReasonSourceChanged, Message: "the source was changed during the copy: " + s.From.Status.Message,
	}
}
