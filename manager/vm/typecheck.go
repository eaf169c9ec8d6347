package vm

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// verdict is what is known of the VM's type: the condition VMTypeAccepted.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// Reasons of VMTypeAccepted.
const (
	reasonAccepted     = "Accepted"
	reasonTypeRefused  = "TypeNotAccepted"
	reasonTypesMissing = "TypesMissing"
	reasonTypeKept     = "Kept"
	reasonNotChecked   = "NotChecked"
)

// checkType asks whether the VM's type makes a machine of it. A VM that keeps the
// type of its first start has it in its data, where nobody but its runner can
// look.
func (c *reconciler) checkType(ctx context.Context, v *visit) (outcome, error) {
	v.accepted = verdict{metav1.ConditionUnknown, reasonNotChecked, ""}
	if template := untranslated(v.vm); template != "" {
		return v.refuse(reasonTypeRefused, fmt.Sprintf("spec.runnerTemplate.source: %s is a template of VM-Operator: name the VM type that takes its place in spec.vmType.source (docs/vm-types/from-freemarker.md), or, if the type standard does, remove spec.runnerTemplate", template)), nil
	}
	if kept := v.vm.Spec.VMType.Update; kept != nil && !*kept && v.vm.Status.VMType != "" {
		v.accepted = verdict{metav1.ConditionUnknown, reasonTypeKept, "the VM keeps the type of its first start"}
		return nil, nil
	}
	if name := v.vm.Spec.VMType.ConfigMap; name != "" && v.types == nil {
		return v.refuse(reasonTypesMissing, fmt.Sprintf("spec.vmType.configMap: there is no ConfigMap %s", name)), nil
	}
	modules, err := c.modules.of(ctx, c.live, v.types)
	if err == nil {
		err = c.opts.Types.CheckType(ctx, v.vm, modules)
	}
	var refusal TypeRefused
	switch {
	case err == nil:
		v.accepted = verdict{metav1.ConditionTrue, reasonAccepted, ""}
		return nil, nil
	case errors.As(err, &refusal):
		return v.refuse(reasonTypeRefused, refusal.Message), nil
	}
	v.accepted = verdict{metav1.ConditionUnknown, reasonNotChecked, readable(err.Error())}
	return nil, fmt.Errorf("check the type of VM %s: %w", v.vm.Name, err)
}

// originalTemplate is VM-Operator's own, whose place the type standard takes.
const originalTemplate = "Standard-VM-latest.ftl.yaml"

// untranslated returns the template of a VM of VM-Operator that nobody has named a VM
// type for; "" if there is none.
func untranslated(vm *v1.VirtualMachine) string {
	template := vm.Spec.RunnerTemplate
	if template == nil || template.Source == originalTemplate || vm.Spec.VMType.Source != "standard" {
		return ""
	}
	return template.Source
}

func (v *visit) refuse(reason, message string) outcome {
	message = shorten(message, maxMessage) // of several lines, as Starlark shows the place
	v.accepted = verdict{metav1.ConditionFalse, reason, message}
	return stalled{reason, message}
}
