package objects

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "vmop/api/v1"
)

// A record is a ConfigMap about a single claim, identified by the UID of the record's owner. The record shows that
// the manager has created the claim, or why the files in its volume are not trusted. A VM's status contains the same
// information, but is deleted with the VM. The garbage collector deletes the record with the claim. A user who may
// write ConfigMaps may also write trustedClaims.
//
// See docs/decisions/0057-claims.md.

// ClaimRecordName returns the name of a claim's record. The name contains a dot, unlike the names of VMs, so it
// differs from the names of a VM's other ConfigMaps.
func ClaimRecordName(claim string) string { return claim + ".claim" }

// origin is the content of a record. The zero origin means that no record exists.
type origin struct {
	uid       types.UID // the claim's UID
	untrusted string    // why its files are not trusted; "" if they are trusted
}

func originOf(record *Metadata) origin {
	if record == nil {
		return origin{}
	}
	owner := metav1.GetControllerOf(record)
	if owner == nil || owner.Kind != KindClaim.String() || ClaimRecordName(owner.Name) != record.Name {
		return origin{}
	}
	return origin{owner.UID, record.Annotations[AnnotationUntrusted]}
}

// ClaimRecord describes a pending write of a claim's record.
type ClaimRecord struct {
	// Name of the record.
	Name string
	// Claim is the UID of its claim.
	Claim types.UID
	// Untrusted is the reason why the files in the volume are not trusted; "" if they are trusted.
	Untrusted string
	// Create creates the record. If it is nil, the record exists, and Mark is applied.
	Create *corev1.ConfigMapApplyConfiguration
	// Mark is the merge patch (RFC 7386) that writes Untrusted.
	Mark []byte
	// InTheWay is set if the record of an earlier claim with the same name exists, and the garbage collector is
	// about to delete it.
	InTheWay bool
}

// Record returns the pending write of an existing claim's record, or nil if no write is necessary. Two kinds of
// claims have a record: claims of pods that need more than Pod Security's level "restricted", and claims with files
// that could be trusted if their record didn't contain a reason.
func (c *Claim) Record(vm *v1.VirtualMachine, s Settings) (*ClaimRecord, error) {
	own := c.Untrusted == "" && c.record.uid != c.UID && rightsOf(vm, s).beyondRestricted()
	unusable := c.mount == "" || c.UID == "" || c.Problem != nil && c.Problem.Fatal
	if unusable || c.taint == "" && !own {
		return nil, nil
	}
	record := &ClaimRecord{Name: ClaimRecordName(c.Name), Claim: c.UID, Untrusted: c.taint}
	annotations := map[string]string{AnnotationVersion: s.Version}
	if c.taint != "" {
		annotations[AnnotationUntrusted] = c.taint
	}
	switch c.record.uid {
	case c.UID:
		text, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		if err != nil {
			return nil, fmt.Errorf("write the record of the claim %s: %w", c.Name, err)
		}
		record.Mark = text
	case "":
		record.Create = corev1.ConfigMap(record.Name, vm.Namespace).
			WithLabels(Labels(vm)).WithAnnotations(annotations).
			WithOwnerReferences(applymetav1.OwnerReference().WithAPIVersion("v1").WithKind(KindClaim.String()).
				WithName(c.Name).WithUID(c.UID).WithController(true))
	default:
		record.InTheWay = true
	}
	return record, nil
}

// Tainted reports whether the record must be marked as untrusted, before a pod is created that could leave untrusted
// files in the volume.
func (c *Claim) Tainted() bool { return c.taint != "" }
