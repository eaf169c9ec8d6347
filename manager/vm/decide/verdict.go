package decide

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Verdict is the content of a condition that the manager maintains.
type Verdict struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Reasons of VMTypeAccepted.
const (
	reasonAccepted     = "Accepted"
	ReasonTypeRefused  = "TypeNotAccepted"
	ReasonTypesMissing = "TypesMissing"
	ReasonTypeKept     = "Kept"
	reasonNotChecked   = "NotChecked"

	// The following are reasons for a type in a registry.
	ReasonFetchingType   = "FetchingType"
	ReasonTypeNotFetched = "TypeNotFetched"
)

// TypeUnknown returns the verdict for a type that could not be checked.
func TypeUnknown(message string) Verdict {
	return Verdict{metav1.ConditionUnknown, reasonNotChecked, message}
}

// TypeAccepted returns the verdict for a type that accepts the VM.
func TypeAccepted() Verdict { return Verdict{metav1.ConditionTrue, reasonAccepted, ""} }

// TypeRefused returns the verdict for a type that rejects the VM. The message may have several lines, as Starlark
// shows the place.
func TypeRefused(message string) Verdict {
	return Verdict{metav1.ConditionFalse, ReasonTypeRefused, Shorten(message, MaxMessage)}
}

// PreviewType returns what is known about a VM's type without a check, or nil if a check is necessary. If a VM keeps
// the type of its first start, this type is in its data volume, where only the runner can read it.
func PreviewType(s *Snapshot) *Verdict {
	if s.Class.waitsForClass() {
		return new(TypeUnknown("unknown until the VM's class is known"))
	}
	if template := untranslatedTemplate(s.VM); template != "" {
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

// originalTemplate is VM-Operator's default template. The type standard replaces it.
const originalTemplate = "Standard-VM-latest.ftl.yaml"

// untranslatedTemplate returns the template of a VM of VM-Operator without a VM type, or "" if there is no such
// template.
func untranslatedTemplate(vm *v1.VirtualMachine) string {
	template := vm.Spec.RunnerTemplate
	if template == nil || template.Source == originalTemplate || vm.Spec.VMType.Source != "standard" {
		return ""
	}
	return template.Source
}

// Obstacle returns what keeps a VM with this verdict from starting, or nil if the VM may start.
func (v Verdict) Obstacle() Obstacle {
	if v.Status == metav1.ConditionFalse {
		return Stalled{v.Reason, v.Message}
	}
	return nil
}
