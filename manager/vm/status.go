package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// passing is how long a phase that every VM passes through is not told.
const passing = 2 * time.Second

// tell writes the manager's part of the VM's status, if it has changed, after the
// events that tell of the change.
func (c *reconciler) tell(ctx context.Context, v *visit) error {
	p := phaseOf(v.situation)
	c.explain(ctx, v, &p)
	status := v.status(p)
	if sameStatus(status, v.vm.Status) {
		v.memory.fleeting = time.Time{}
		return nil
	}
	if v.passes(p) || p.phase == v.vm.Status.Phase && !c.mayWrite(v) {
		return nil
	}
	for _, e := range v.happenings(p) {
		c.event(ctx, v, e)
	}
	var unless string // somebody has written meanwhile
	if v.vm.Status.Runner == nil {
		unless = v.vm.ResourceVersion // the runner, perhaps, in whose place the manager speaks
	}
	version, err := c.writeStatus(ctx, v.vm, unless, inFull{status, status.Reason, status.Message}, managerWriter)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it is another VM of that name, or none
	case err != nil:
		if refused(err) != nil { // there is no other place for it
			c.event(ctx, v, statusRefused(v.vm.Generation, readable(err.Error())))
		}
		return fmt.Errorf("write the status of VM %s: %w", v.vm.Name, err)
	}
	v.memory.status = version
	return nil
}

// inFull is the manager's part of a status with what is empty, too: new VMs have a reason
// and a message by the definition of the resource, and would keep them.
type inFull struct {
	v1.VirtualMachineStatus

	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// passes tells whether a phase need not be told yet.
func (v *visit) passes(p phase) bool {
	if !p.fleeting || v.vm.DeletionTimestamp != nil {
		v.memory.fleeting = time.Time{}
		return false
	}
	if v.memory.fleeting.IsZero() {
		v.memory.fleeting = v.now
	}
	until := v.memory.fleeting.Add(passing)
	if !v.now.Before(until) {
		return false
	}
	v.lookAgain(until)
	return true
}

// status is the manager's part of the VM's status.
func (v *visit) status(p phase) v1.VirtualMachineStatus {
	is := v.vm.Status
	status := v1.VirtualMachineStatus{
		ObservedGeneration: v.vm.Generation,
		Phase:              p.phase, Reason: p.reason, Message: shorten(p.message, maxMessage),
		Failures: v.failures,
	}
	if v.pod != nil {
		status.NodeName = v.pod.Spec.NodeName
	}
	if v.vm.DeletionTimestamp != nil { // nothing was looked at
		status.Privileges, status.Failures = is.Privileges, is.Failures
		status.PendingChanges = podChanges(is.PendingChanges)
		for _, name := range managerConditions() {
			if have := meta.FindStatusCondition(is.Conditions, name); have != nil {
				status.Conditions = append(status.Conditions, *have)
			}
		}
		return status
	}
	status.Privileges = objects.Privileges(v.vm, v.settings)
	status.PendingChanges = v.changes
	status.Conditions = append(v.conditions(), v.firstWord()...)
	return status
}

// firstWord is what holds of a VM that no runner has ever run: what the definition
// of the resource says of new ones has neither a time nor a reason that anybody
// understands.
func (v *visit) firstWord() []metav1.Condition {
	if v.vm.Status.Runner != nil {
		return nil
	}
	var conditions []metav1.Condition
	for _, name := range runnerConditions() {
		conditions = append(conditions, metav1.Condition{
			Type: name, Status: metav1.ConditionFalse, Reason: reasonNotStarted, Message: "the VM has not been started yet",
			ObservedGeneration: v.vm.Generation, LastTransitionTime: v.vm.CreationTimestamp,
		})
	}
	return conditions
}

// reasonNotStarted is that of a VM that has never run.
const reasonNotStarted = "NotStarted"

func managerConditions() []string {
	return []string{v1.ConditionVMTypeAccepted, v1.ConditionRestartRequired, v1.ConditionReconciled}
}

// conditions are the manager's.
func (v *visit) conditions() []metav1.Condition {
	all := map[string]verdict{v1.ConditionVMTypeAccepted: v.accepted, v1.ConditionRestartRequired: v.restart(), v1.ConditionReconciled: v.reconciled()}
	var conditions []metav1.Condition
	for _, name := range managerConditions() {
		c := all[name]
		conditions = append(conditions, conditionFrom(meta.FindStatusCondition(v.vm.Status.Conditions, name), metav1.Condition{
			Type: name, Status: c.status, Reason: c.reason, Message: c.message, ObservedGeneration: v.vm.Generation,
		}, v.now))
	}
	return conditions
}

// restart is whether changes wait for a restart, be they the manager's or the
// runner's.
func (v *visit) restart() verdict {
	var paths []string
	for _, change := range v.changes {
		paths = append(paths, change.Path)
	}
	for _, change := range v.vm.Status.PendingChanges {
		if !objects.OfPod(change.Path) && !slices.Contains(paths, change.Path) {
			paths = append(paths, change.Path)
		}
	}
	switch {
	case len(paths) == 0 && v.accepted.status == metav1.ConditionFalse && v.pod != nil:
		return verdict{metav1.ConditionUnknown, v.accepted.reason, "what a restart would change is not known, and the VM could not be started again: its type is not accepted (VMTypeAccepted)"}
	case len(paths) == 0:
		return verdict{metav1.ConditionFalse, reasonNothingPending, ""}
	}
	slices.Sort(paths)
	return verdict{metav1.ConditionTrue, reasonChangesPending, shorten("waiting for a restart: "+strings.Join(paths, ", "), maxMessage)}
}

// reconciled is whether the cluster holds what the definition asks for.
func (v *visit) reconciled() verdict {
	if len(v.problems) == 0 {
		return verdict{metav1.ConditionTrue, "Done", ""}
	}
	var messages []string
	for _, p := range v.problems {
		if !slices.Contains(messages, p.message) { // two steps can meet the same fault
			messages = append(messages, p.message)
		}
	}
	return verdict{metav1.ConditionFalse, v.problems[0].reason, shorten(strings.Join(messages, "; "), maxMessage)}
}

// podChanges are the manager's among pending changes.
func podChanges(all []v1.PendingChange) []v1.PendingChange {
	return slices.DeleteFunc(slices.Clone(all), func(c v1.PendingChange) bool { return !objects.OfPod(c.Path) })
}

// sameStatus tells whether the manager's part of a status is there already.
func sameStatus(want, is v1.VirtualMachineStatus) bool {
	if want.ObservedGeneration != is.ObservedGeneration || want.Phase != is.Phase || want.Reason != is.Reason || want.Message != is.Message ||
		want.NodeName != is.NodeName || !equality.Semantic.DeepEqual(want.Failures, is.Failures) ||
		!equality.Semantic.DeepEqual(want.Privileges, is.Privileges) || !equality.Semantic.DeepEqual(want.PendingChanges, podChanges(is.PendingChanges)) {
		return false
	}
	for _, c := range want.Conditions {
		have := meta.FindStatusCondition(is.Conditions, c.Type)
		switch {
		case have == nil:
			return false
		case c.Reason == reasonNotStarted: // the cache doesn't have the words of the runner's conditions
			if have.Status != c.Status || !have.LastTransitionTime.Equal(&c.LastTransitionTime) {
				return false
			}
		case !equality.Semantic.DeepEqual(c, *have):
			return false
		}
	}
	return true
}

// conditionFrom returns a condition with the time of its last transition.
func conditionFrom(have *metav1.Condition, want metav1.Condition, now time.Time) metav1.Condition {
	want.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if have != nil && have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	return want
}
