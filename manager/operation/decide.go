package operation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// A Situation is the input for decisions about the operations of a VM. Decide doesn't modify it.
type Situation struct {
	// VM and Pod are nil if they don't exist.
	VM  *v1.VirtualMachine
	Pod *corev1.Pod
	// Operations are all operations that name the VM.
	Operations []*v1.VirtualMachineOperation
	Now        time.Time
	Retention  Retention
	// Seen returns since when this process has known that an operation has finished.
	Seen func(types.UID) time.Time
}

// A Plan contains the next actions.
type Plan struct {
	// Write lists operations with their new status, to write in this order. A failed write ends the round.
	Write []*v1.VirtualMachineOperation
	// Send is the operation to signal after that; nil if there is none.
	Send *v1.VirtualMachineOperation
	// Remove lists finished operations to delete.
	Remove []*v1.VirtualMachineOperation
	// Again is when to decide again without a change; zero means never.
	Again time.Time
}

// appearTime is how far the watch for VMs may lag behind the watch for operations.
const appearTime = 3 * time.Second

// Decide returns the next actions for the operations of a VM.
func Decide(s Situation) (p Plan) {
	p.Remove, p.Again = s.expiredOperations()
	active := s.activeOperation()
	if active != nil {
		end := operationOutcome(active, s.VM, s.Pod)
		if end.phase != "" && (end.phase != active.Status.Phase || end.message != active.Status.Message) {
			p.Write = append(p.Write, s.endOperation(active, end))
			return p // pending operations follow in the next round
		}
	}
	for _, o := range s.pendingOperations() {
		if age := s.Now.Sub(o.CreationTimestamp.Time); s.VM == nil && age >= 0 && age < appearTime {
			p.lookAgainAt(s.Now.Add(appearTime - age))
			continue
		}
		if refusal := s.refuseNext(o.Spec, active); refusal != nil {
			p.Write = append(p.Write, s.endOperation(o, refusedOutcome(refusal)))
			continue
		}
		if active != nil {
			p.Write = append(p.Write, s.endOperation(active, supersededBy(o.Name, string(o.Spec.Type))))
		}
		p.Send = s.acceptOperation(o)
		p.Write = append(p.Write, p.Send)
		return p
	}
	if active != nil && !Sent(active) && active.DeletionTimestamp == nil {
		p.Send = active
	}
	return p
}

func (p *Plan) lookAgainAt(at time.Time) {
	if p.Again.IsZero() || at.Before(p.Again) {
		p.Again = at
	}
}

// activeOperation returns the operation in progress; nil if there is none.
func (s Situation) activeOperation() *v1.VirtualMachineOperation {
	for _, o := range s.Operations {
		if o.Status.Phase == v1.OperationInProgress && o.Status.Target != nil {
			return o
		}
	}
	return nil
}

// Moving returns the operation in progress that moves the guest; nil if there is none.
func Moving(all []*v1.VirtualMachineOperation) *v1.VirtualMachineOperation {
	active := Situation{Operations: all}.activeOperation()
	if active == nil || !isMove(active.Spec.Type) || !Sent(active) || active.DeletionTimestamp != nil {
		return nil
	}
	return active
}

// pendingOperations returns the operations that still need a decision, oldest first.
func (s Situation) pendingOperations() (all []*v1.VirtualMachineOperation) {
	for _, o := range s.Operations {
		waits := o.Status.Phase == v1.OperationPending || o.Status.Phase == ""
		if waits && o.DeletionTimestamp == nil {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *v1.VirtualMachineOperation) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(objects.VersionOf(a), objects.VersionOf(b)), strings.Compare(a.Name, b.Name))
	})
	return all
}

// refuseNext returns why an operation is not possible; nil if it is. active, if not nil, is the operation that it would
// replace.
func (s Situation) refuseNext(o v1.VirtualMachineOperationSpec, active *v1.VirtualMachineOperation) *Refusal {
	switch {
	case s.VM == nil:
		return &Refusal{ReasonNotFound, "there is no VM " + o.VirtualMachineName + " in this namespace"}
	case active != nil && !supersedesActive(o, active.Spec):
		return &Refusal{reasonInProgress, "the operation " + active.Name + " (" + string(active.Spec.Type) +
			") is in progress: wait for its end, or delete it"}
	}
	return refuseOperation(o, s.VM, s.Pod)
}

// acceptOperation returns an operation as the new active one.
func (s Situation) acceptOperation(o *v1.VirtualMachineOperation) *v1.VirtualMachineOperation {
	o = o.DeepCopy()
	now := metav1.NewTime(s.Now)
	o.Status = v1.VirtualMachineOperationStatus{
		Phase: v1.OperationInProgress, Reason: ReasonAccepted, Message: waitMessage(o.Spec), StartTime: &now,
		Target: targetOf(o.Spec, s.VM, s.Pod),
	}
	s.setCondition(o, v1.OperationConditionCompleted, metav1.ConditionFalse, "InProgress", o.Status.Message)
	s.setCondition(o, v1.OperationConditionSignalSent, metav1.ConditionFalse, "TargetRecorded",
		"the signal is about to be sent")
	return o
}

// waitMessage returns the status message of an accepted operation.
func waitMessage(o v1.VirtualMachineOperationSpec) string {
	switch {
	case o.Type == v1.OperationStart:
		return "waiting until the guest is running"
	case o.Type == v1.OperationReset:
		return "waiting until the runner has reset the machine"
	case isMove(o.Type):
		return "waiting until the guest has moved to another pod"
	case o.Force && o.Type == v1.OperationStop:
		return "waiting until the machine has ended"
	case o.Type == v1.OperationStop:
		return "waiting until the guest has shut down"
	case o.Force:
		return "waiting until the guest is running in a new pod"
	}
	return "waiting until the guest has shut down and is running in a new pod"
}

// SentNow returns an operation with its signal marked as sent. generation is the VM's generation after the signal.
func (s Situation) SentNow(o *v1.VirtualMachineOperation, generation int64) *v1.VirtualMachineOperation {
	o = o.DeepCopy()
	o.Status.Target.Generation = generation
	s.setCondition(o, v1.OperationConditionSignalSent, metav1.ConditionTrue, "SignalSent", "")
	return o
}

// Sent reports whether the signal of an operation was sent.
func Sent(o *v1.VirtualMachineOperation) bool {
	return meta.IsStatusConditionTrue(o.Status.Conditions, v1.OperationConditionSignalSent)
}

// endOperation returns an operation with this outcome in its status.
func (s Situation) endOperation(o *v1.VirtualMachineOperation, end outcome) *v1.VirtualMachineOperation {
	o = o.DeepCopy()
	o.Status.Phase, o.Status.Reason, o.Status.Message = end.phase, end.reason, decide.Readable(end.message)
	condition := metav1.ConditionFalse
	if end.phase == v1.OperationCompleted {
		condition = metav1.ConditionTrue
	}
	if end.phase.Finished() {
		now := metav1.NewTime(s.Now)
		o.Status.CompletionTime = &now
	}
	s.setCondition(o, v1.OperationConditionCompleted, condition, end.reason, o.Status.Message)
	return o
}

func (s Situation) setCondition(o *v1.VirtualMachineOperation, kind string, to metav1.ConditionStatus, reason,
	message string,
) {
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
		Type: kind, Status: to, Reason: reason, Message: message, ObservedGeneration: o.Generation,
		LastTransitionTime: metav1.NewTime(s.Now),
	})
}
