package decide

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// A Verdict is what a condition of the manager says.
type Verdict struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Reasons of VMTypeAccepted.
const (
	ReasonAccepted     = "Accepted"
	ReasonTypeRefused  = "TypeNotAccepted"
	ReasonTypesMissing = "TypesMissing"
	ReasonTypeKept     = "Kept"
	ReasonNotChecked   = "NotChecked"

	// Those of a type in a registry.
	ReasonFetchingType   = "FetchingType"
	ReasonTypeNotFetched = "TypeNotFetched"
)

// TypeUnknown is the verdict about a type that could not be checked.
func TypeUnknown(message string) Verdict {
	return Verdict{metav1.ConditionUnknown, ReasonNotChecked, message}
}

// TypeAccepted is the verdict about a type that makes a machine of the VM.
func TypeAccepted() Verdict { return Verdict{metav1.ConditionTrue, ReasonAccepted, ""} }

// TypeRefused is the verdict about one that doesn't. The message may have several lines,
// as Starlark shows the place.
func TypeRefused(message string) Verdict {
	return Verdict{metav1.ConditionFalse, ReasonTypeRefused, Shorten(message, MaxMessage)}
}

// PreviewType returns what is known of a VM's type without checking it; nil if it must be
// checked. A VM that keeps the type of its first start has it in its data volume, where
// only its runner can read it.
func PreviewType(s *Snapshot) *Verdict {
	if s.Class.waits() {
		return new(TypeUnknown("it depends on the VM's class, of which nothing is known yet"))
	}
	if template := untranslated(s.VM); template != "" {
		return new(TypeRefused(fmt.Sprintf("spec.runnerTemplate.source: %s is a template of VM-Operator: "+
			"set spec.vmType.source to the VM type that replaces it (docs/vm-types/from-freemarker.md), "+
			"or remove spec.runnerTemplate if the type standard does", template)))
	}
	if kept := s.VM.Spec.VMType.Update; kept != nil && !*kept && s.VM.Status.VMType != "" {
		return &Verdict{metav1.ConditionUnknown, ReasonTypeKept, "the VM keeps the type of its first start"}
	}
	if fault := objects.TypeImageFault(s.VM, s.Settings); fault != nil {
		return &Verdict{metav1.ConditionFalse, ReasonNotTrusted, Readable(fault.String())}
	}
	if name := s.VM.Spec.VMType.ConfigMap; name != "" && s.Types == nil {
		message := "spec.vmType.configMap: there is no ConfigMap " + name
		return &Verdict{metav1.ConditionFalse, ReasonTypesMissing, message}
	}
	return nil
}

// originalTemplate is VM-Operator's own, which the type standard replaces.
const originalTemplate = "Standard-VM-latest.ftl.yaml"

// untranslated returns the template of a VM of VM-Operator that has no VM type in its
// place; "" if there is none.
func untranslated(vm *v1.VirtualMachine) string {
	template := vm.Spec.RunnerTemplate
	if template == nil || template.Source == originalTemplate || vm.Spec.VMType.Source != "standard" {
		return ""
	}
	return template.Source
}

// Obstacle returns what keeps a VM with this verdict from starting; nil if nothing does.
func (v Verdict) Obstacle() Obstacle {
	if v.Status == metav1.ConditionFalse {
		return Stalled{v.Reason, v.Message}
	}
	return nil
}
