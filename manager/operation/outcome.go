package operation

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/vmstatus"
)

// An outcome is the result of an operation. An empty phase means that there is no change.
type outcome struct {
	phase           v1.OperationPhase
	reason, message string
}

func failedOutcome(reason, message string) outcome {
	return outcome{v1.OperationFailed, reason, message}
}

func completedOutcome(message string) outcome {
	return outcome{v1.OperationCompleted, ReasonCompleted, message}
}
func refusedOutcome(r *Refusal) outcome { return failedOutcome(r.Reason, r.Message) }
func supersededBy(name, what string) outcome {
	message := "the operation " + name + " (" + what + ") has taken its place"
	return outcome{v1.OperationSuperseded, reasonSuperseded, message}
}

// operationOutcome returns the outcome of the active operation.
func operationOutcome(o *v1.VirtualMachineOperation, vm *v1.VirtualMachine, pod *corev1.Pod) outcome {
	target := o.Status.Target
	stop := o.Spec.Type == v1.OperationStop
	switch {
	case vm == nil || vm.UID != target.VirtualMachineUID:
		if stop {
			return completedOutcome("the VM has been deleted")
		}
		return failedOutcome(reasonDeleted, "the VM has been deleted meanwhile")
	case vm.DeletionTimestamp != nil && !stop:
		return failedOutcome(reasonDeleted, "the VM is being deleted")
	case !Sent(o) || vm.Status.ObservedGeneration < target.Generation:
		return outcome{}
	case o.Spec.Type == v1.OperationReset:
		return outcomeOfReset(target, vm, pod)
	case isMove(o.Spec.Type):
		return outcomeOfMove(o, vm)
	case stop && vm.DeletionTimestamp == nil && isToRun(vm):
		return failedOutcome(reasonOverruled, "the VM has been set to Running meanwhile")
	case stop:
		if pod == nil && vm.Status.Phase == v1.PhaseStopped {
			return completedOutcome("the VM is off")
		}
		return outcome{}
	case !isToRun(vm):
		message := "the VM has been set to Stopped in the meantime: " + vm.Status.Message
		return failedOutcome(reasonOverruled, strings.TrimSuffix(message, ": "))
	}
	fresh := pod != nil && !decide.Terminating(pod) && (o.Spec.Type == v1.OperationStart || pod.UID != target.PodUID)
	switch runner := vm.Status.Runner; {
	case fresh && vm.Status.Phase == v1.PhaseRunning && runner != nil && runner.PodUID == pod.UID:
		return completedOutcome("the guest is running on node " + pod.Spec.NodeName)
	case vm.Status.Phase == v1.PhaseFailed && (fresh || pod == nil):
		return failedOutcome(cmp.Or(vm.Status.Reason, string(v1.PhaseFailed)), "the VM has failed: "+vm.Status.Message)
	}
	return outcome{}
}

// isMove reports whether operations of this type move the guest.
func isMove(t v1.OperationType) bool { return t == v1.OperationMigrate || t == v1.OperationEvict }

// outcomeOfMove returns the outcome of a move.
func outcomeOfMove(o *v1.VirtualMachineOperation, vm *v1.VirtualMachine) outcome {
	m := vm.Status.Migration
	switch {
	case m == nil || m.OperationUID != o.UID:
		return outcome{}
	case m.Stage == v1.MigrationCompleted:
		return completedOutcome(m.Message)
	case m.Stage == v1.MigrationFailed:
		return failedOutcome(reasonMigrationFailed, "the guest has not moved: "+m.Message)
	}
	return outcome{v1.OperationInProgress, ReasonAccepted, m.Message}
}

// outcomeOfReset returns the outcome of a reset. The runner resets the machine when it reads the counter.
func outcomeOfReset(target *v1.OperationTarget, vm *v1.VirtualMachine, pod *corev1.Pod) outcome {
	if pod == nil || pod.UID != target.PodUID || decide.Terminating(pod) {
		return failedOutcome(reasonOverruled, "the guest has ended meanwhile")
	}
	runner, read := vm.Status.Runner, meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionConfigApplied)
	switch {
	case runner == nil || runner.PodUID != pod.UID || read == nil || read.ObservedGeneration < target.Generation:
		return outcome{}
	case read.Reason == string(vmstatus.ReasonNotReset):
		if meta.IsStatusConditionTrue(vm.Status.Conditions, v1.ConditionReady) { // a reset doesn't wait for a paused VM
			return failedOutcome(read.Reason, read.Message)
		}
		return outcome{v1.OperationInProgress, ReasonAccepted, read.Message}
	case read.Reason == string(vmstatus.ReasonApplying):
		return outcome{}
	}
	return completedOutcome("the machine has been reset")
}
