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

// A record is a ConfigMap that says of one claim, by the uid of its owner, that the manager
// has created the claim, or why the files in its volume are not trusted. A VM's status says
// the same, and is deleted with the VM; the record is deleted by the garbage collector, with
// the claim. Whoever may write ConfigMaps may write trustedClaims, too.
//
// See docs/decisions/0057-claims.md.

// ClaimRecordName returns the name of a claim's record. No VM, hence no other ConfigMap of a
// VM, has a name with a dot.
func ClaimRecordName(claim string) string { return claim + ".claim" }

// origin is what a record says. The zero origin is that of no record.
type origin struct {
	uid       types.UID // of the claim
	untrusted string    // why its files are not trusted; "" if they are
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

// A ClaimRecord is what is to be written into the record of a claim.
type ClaimRecord struct {
	// Name of the record.
	Name string
	// Claim is the uid of its claim.
	Claim types.UID
	// Untrusted says why the files in the volume are not trusted; "" if they are.
	Untrusted string
	// Create creates the record. Nil: it exists, and gets the merge patch (RFC 7386) Mark.
	Create *corev1.ConfigMapApplyConfiguration
	// Mark writes Untrusted.
	Mark []byte
	// InTheWay: there is the record of an earlier claim of that name, which the garbage
	// collector is about to delete.
	InTheWay bool
}

// Record returns what is to be written into the record of a claim that exists; nil if there
// is nothing to write. Two kinds of claims have one: those of pods that get more than Pod
// Security's level "restricted", and those whose files could be trusted if it didn't say
// otherwise.
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

// Tainted reports whether the record must say that the files are not trusted, before a pod
// is made that could leave such files there.
func (c *Claim) Tainted() bool { return c.taint != "" }
