package operation

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Reasons for phases.
const (
	ReasonAccepted               = "Accepted"
	ReasonCompleted              = "OperationCompleted"
	reasonSuperseded             = "Superseded"
	ReasonNotFound               = "VirtualMachineNotFound"
	reasonDeleted                = "VirtualMachineDeleted"
	reasonInProgress             = "OperationInProgress"
	reasonNotApplicableForPolicy = "NotApplicableForRunPolicy"
	reasonNotApplicableForPhase  = "NotApplicableForPhase"
	reasonNotApplicableForType   = "NotApplicableForVMType"
	reasonOverruled              = "Overruled"
	reasonNotMigratable          = decide.ReasonNotMigratable
	reasonMigrationFailed        = "MigrationFailed"
)

// A Refusal is why an operation is not possible: a reason for programs, and an explanation for people.
type Refusal struct{ Reason, Message string }

func (r Refusal) Error() string { return r.Message }

// Possible returns nil if a new operation on a VM would be accepted now, and the reason otherwise. pod is nil if the VM
// has no pod; all are the operations that name the VM. Call it before you offer an operation to a user.
func Possible(o v1.VirtualMachineOperationSpec, vm *v1.VirtualMachine, pod *corev1.Pod,
	all []*v1.VirtualMachineOperation,
) *Refusal {
	s := Situation{VM: vm, Pod: pod, Operations: all}
	active := s.activeOperation()
	if active != nil && operationOutcome(active, vm, pod).phase.Finished() {
		active = nil
	}
	return s.refuseNext(o, active)
}

// refuseOperation returns why an operation on a VM is not possible, regardless of other operations; nil if it is
// possible.
func refuseOperation(o v1.VirtualMachineOperationSpec, vm *v1.VirtualMachine, pod *corev1.Pod) *Refusal {
	if vm.DeletionTimestamp != nil && (o.Type != v1.OperationStop || !o.Force || pod == nil) {
		return refusedInPhase("the VM is being deleted; Stop with force: true ends its guest immediately")
	}
	switch o.Type {
	case v1.OperationStart:
		return refuseStart(vm)
	case v1.OperationStop:
		return refuseStop(o, vm, pod)
	case v1.OperationRestart:
		return refuseRestart(o, vm, pod)
	case v1.OperationMigrate, v1.OperationEvict:
		return refuseMigrate(o, vm, pod)
	}
	if vm.Status.Phase != v1.PhaseRunning || pod == nil || decide.Terminating(pod) {
		return refusedInPhase("the VM is %s: only a VM that is Running can be reset", phaseOf(vm))
	}
	return nil
}

func refuseStart(vm *v1.VirtualMachine) *Refusal {
	switch failed := vm.Status.Phase == v1.PhaseFailed; {
	case vm.Spec.RunPolicy == v1.AlwaysOff:
		return refusedByPolicy(vm, "started")
	case !isToRun(vm) || failed:
		return nil
	case vm.Spec.RunPolicy == v1.AlwaysOn:
		return &Refusal{reasonNotApplicableForPolicy, fmt.Sprintf(
			"spec.runPolicy is AlwaysOn: the VM, which is %s, starts automatically", phaseOf(vm))}
	}
	return refusedInPhase("the VM is %s: only a VM that is Stopped, Stopping or Failed can be started", phaseOf(vm))
}

func refuseStop(o v1.VirtualMachineOperationSpec, vm *v1.VirtualMachine, pod *corev1.Pod) *Refusal {
	switch {
	case vm.DeletionTimestamp != nil:
		return nil
	case vm.Spec.RunPolicy == v1.AlwaysOn:
		return refusedByPolicy(vm, "stopped")
	case isToRun(vm):
		return nil
	case pod == nil:
		return refusedInPhase("the VM is Stopped already")
	case !o.Force:
		return refusedInPhase("the VM is being stopped already; force: true ends its guest immediately")
	}
	return nil
}

func refuseRestart(o v1.VirtualMachineOperationSpec, vm *v1.VirtualMachine, pod *corev1.Pod) *Refusal {
	accepted := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionVMTypeAccepted)
	switch {
	case vm.Spec.RunPolicy == v1.AlwaysOff:
		return refusedByPolicy(vm, "restarted")
	case pod == nil && isToRun(vm):
		return refusedInPhase("the VM is %s and has no guest; Start tries again immediately if it has failed", phaseOf(vm))
	case !isToRun(vm) && (pod == nil || !o.Force):
		return refusedInPhase("the VM is %s: start it", phaseOf(vm))
	case decide.Terminating(pod) && !o.Force:
		return refusedInPhase("the guest is being shut down already; force: true doesn't wait for it")
	case accepted != nil && accepted.Status == metav1.ConditionFalse:
		return &Refusal{reasonNotApplicableForType, "the VM could not be started again: " + accepted.Message}
	}
	return nil
}

func refuseMigrate(o v1.VirtualMachineOperationSpec, vm *v1.VirtualMachine, pod *corev1.Pod) *Refusal {
	if vm.Status.Phase != v1.PhaseRunning || pod == nil || decide.Terminating(pod) {
		return refusedInPhase("the VM is %s: only the guest of a VM that is Running can move", phaseOf(vm))
	}
	var how v1.MigrateOptions
	if o.Migrate != nil {
		how = *o.Migrate
	}
	labels := how.NodeSelector
	faults := validation.ValidateLabels(labels, field.NewPath("spec", "migrate", "nodeSelector"))
	copies := objects.CopiesDisks(vm, &how)
	why, one := objects.Unmovable(vm, copies), objects.OneNode(vm, copies)
	switch {
	case len(faults) > 0:
		return &Refusal{reasonNotMigratable, faults.ToAggregate().Error()}
	case why != "":
		return &Refusal{reasonNotMigratable, "the guest can't move: " + why}
	case one != "" && copies:
		return &Refusal{reasonNotMigratable, "the guest can't leave its node, though disks are copied: " + one}
	case one != "" && len(labels) == 0 && objects.OneNode(vm, true) == "":
		return &Refusal{reasonNotMigratable, fmt.Sprintf("the guest can't leave its node: %s. With "+
			"migrate: {copyDisks: true} it is copied while the guest moves", one)}
	case one != "" && len(labels) == 0:
		return &Refusal{reasonNotMigratable, fmt.Sprintf("the guest can't leave its node: %s. With Restart the "+
			"scheduler chooses a node again; with migrate: {nodeSelector: {kubernetes.io/hostname: %s}} the guest "+
			"moves to a new pod on its node", one, pod.Spec.NodeName)}
	}
	return nil
}

func refusedInPhase(format string, args ...any) *Refusal {
	return &Refusal{reasonNotApplicableForPhase, fmt.Sprintf(format, args...)}
}

func refusedByPolicy(vm *v1.VirtualMachine, what string) *Refusal {
	return &Refusal{reasonNotApplicableForPolicy, fmt.Sprintf(
		"spec.runPolicy is %s: the VM can't be %s before it is %s or %s",
		vm.Spec.RunPolicy, what, v1.AlwaysOnUnlessStoppedManually, v1.Manual)}
}

func isToRun(vm *v1.VirtualMachine) bool { return vm.Spec.DesiredState() == v1.Running }

func phaseOf(vm *v1.VirtualMachine) v1.Phase { return cmp.Or(vm.Status.Phase, v1.PhasePending) }

// supersedesActive reports whether an operation replaces the active one.
func supersedesActive(o, active v1.VirtualMachineOperationSpec) bool {
	ends := o.Type == v1.OperationStop || o.Type == v1.OperationRestart
	switch active.Type {
	case v1.OperationStart:
		return o.Type == v1.OperationStop
	case v1.OperationReset, v1.OperationMigrate, v1.OperationEvict:
		return ends
	}
	return !active.Force && ends && o.Force
}
