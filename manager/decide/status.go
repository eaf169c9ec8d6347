package decide

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/manager/pool"
)

// Findings are what the steps of a reconciliation have found that is in the VM's status.
type Findings struct {
	// Type is the condition VMTypeAccepted.
	Type Verdict
	// Architecture of the guest; "": it is not known, or no node's.
	Architecture string
	// Changes need a new pod. Applied means that the VM's stateful set is known to make one of
	// the present definition.
	Changes []v1.RestartAwaitingChange
	Applied bool
	// Restart is what becomes of the changes that await one.
	Restart Restart
	// Problems are the condition Reconciled.
	Problems []Problem
	// Volumes are the VM's claims.
	Volumes []v1.Volume
	// IPAddress is the VirtualMachineIPAddress that the VM has; "": none.
	IPAddress string
	// BlockDevices are the disks of the VM that outlive it.
	BlockDevices []v1.BlockDeviceStatusRef
}

// reasonNotStarted is that of the machine's conditions of a VM that has never run.
const reasonNotStarted = "NotStarted"

// Status returns the manager's part of a VM's status.
func Status(s Situation, found Findings, p Phase) v1.VirtualMachineStatus {
	is := s.VM.Status
	status := v1.VirtualMachineStatus{
		ObservedGeneration: s.VM.Generation,
		Phase:              p.Phase, Reason: p.Reason, Message: Shorten(p.Message, MaxMessage),
		Failures: s.Failures, Volumes: found.Volumes, VirtualMachineIPAddressName: found.IPAddress,
		VirtualMachineClassName: s.Class.inForce(), BlockDeviceRefs: found.BlockDevices,
		ConsoleUser: pool.ConsoleUser(s.VM), Architecture: found.Architecture,
	}
	if s.Pod != nil {
		status.NodeName = s.Pod.Spec.NodeName
	}
	if s.VM.DeletionTimestamp != nil { // no step was taken
		status.Privileges, status.Failures, status.AutomaticRestart = is.Privileges, is.Failures, is.AutomaticRestart
		status.RestartAwaitingChanges, status.Architecture = changesOfPod(is.RestartAwaitingChanges), is.Architecture
		status.VirtualMachineIPAddressName, status.BlockDeviceRefs = is.VirtualMachineIPAddressName, is.BlockDeviceRefs
		for _, name := range v1.ManagerConditions() {
			if have := meta.FindStatusCondition(is.Conditions, name); have != nil {
				status.Conditions = append(status.Conditions, *have)
			}
		}
		return status
	}
	status.Privileges = objects.Privileges(s.VM, s.Settings)
	status.RestartAwaitingChanges, status.AutomaticRestart = found.Changes, found.Restart.Record
	status.Conditions = append(managerConditions(s, found), s.firstConditions()...)
	return status
}

// firstConditions are the machine's conditions of a VM that no runner has run yet. They
// replace the defaults of the resource's definition, which have neither a time nor a
// reason that says anything.
func (s Situation) firstConditions() []metav1.Condition {
	if s.VM.Status.Runner != nil {
		return nil
	}
	var conditions []metav1.Condition
	for _, name := range v1.MachineConditions() {
		conditions = append(conditions, metav1.Condition{
			Type: name, Status: metav1.ConditionFalse,
			Reason: reasonNotStarted, Message: "the VM has not been started yet",
			ObservedGeneration: s.VM.Generation, LastTransitionTime: s.VM.CreationTimestamp,
		})
	}
	return conditions
}

// managerConditions are the manager's part of the conditions.
func managerConditions(s Situation, found Findings) []metav1.Condition {
	all := map[string]Verdict{
		v1.ConditionVMTypeAccepted:  found.Type,
		v1.ConditionRestartRequired: found.Restart.Condition,
		v1.ConditionReconciled:      reconciled(found.Problems),
		v1.ConditionMigratable:      Migratable(s.Snapshot),
		v1.ConditionSizingMatched:   s.Class.verdict(),
	}
	var conditions []metav1.Condition
	for _, name := range v1.ManagerConditions() {
		verdict, have := all[name], meta.FindStatusCondition(s.VM.Status.Conditions, name)
		if name == v1.ConditionSizingMatched && s.Class.Name == "" {
			continue
		}
		conditions = append(conditions, withTransition(have, metav1.Condition{
			Type: name, Status: verdict.Status, Reason: verdict.Reason, Message: verdict.Message,
			ObservedGeneration: s.VM.Generation,
		}, s.Now))
	}
	return conditions
}

// reconciled is whether the cluster holds what the definition asks for.
func reconciled(problems []Problem) Verdict {
	if len(problems) == 0 {
		return Verdict{metav1.ConditionTrue, "Done", ""}
	}
	var messages []string
	for _, p := range problems {
		if !slices.Contains(messages, p.Message) { // two steps can meet the same fault
			messages = append(messages, p.Message)
		}
	}
	return Verdict{metav1.ConditionFalse, problems[0].Reason, Shorten(strings.Join(messages, "; "), MaxMessage)}
}

// changesOfPod are the manager's among pending changes.
func changesOfPod(all []v1.RestartAwaitingChange) []v1.RestartAwaitingChange {
	return slices.DeleteFunc(slices.Clone(all), func(c v1.RestartAwaitingChange) bool { return !objects.OfPod(c.Path) })
}

// sameChange reports whether two changes are the same, however the JSON of their values is written.
func sameChange(a, b v1.RestartAwaitingChange) bool {
	currentA, desiredA := a.Values()
	currentB, desiredB := b.Values()
	return a.Path == b.Path && a.Operation == b.Operation && reflect.DeepEqual(currentA, currentB) &&
		reflect.DeepEqual(desiredA, desiredB)
}

// SameStatus reports whether the manager's part of a status is there already.
func SameStatus(want, is v1.VirtualMachineStatus) bool {
	if want.ObservedGeneration != is.ObservedGeneration || want.Phase != is.Phase ||
		want.Reason != is.Reason || want.Message != is.Message || want.NodeName != is.NodeName ||
		want.VirtualMachineIPAddressName != is.VirtualMachineIPAddressName ||
		want.VirtualMachineClassName != is.VirtualMachineClassName || want.ConsoleUser != is.ConsoleUser ||
		want.Architecture != is.Architecture ||
		!equality.Semantic.DeepEqual(want.Failures, is.Failures) ||
		!slices.Equal(want.BlockDeviceRefs, is.BlockDeviceRefs) ||
		!equality.Semantic.DeepEqual(want.AutomaticRestart, is.AutomaticRestart) ||
		!equality.Semantic.DeepEqual(want.Privileges, is.Privileges) ||
		!slices.EqualFunc(want.RestartAwaitingChanges, changesOfPod(is.RestartAwaitingChanges), sameChange) {
		return false
	}
	for _, v := range want.Volumes { // in any order
		if !slices.Contains(is.Volumes, v) {
			return false
		}
	}
	for _, c := range want.Conditions {
		have := meta.FindStatusCondition(is.Conditions, c.Type)
		switch {
		case have == nil:
			return false
		case c.Reason == reasonNotStarted: // reason and message may be those of the resource's definition
			if have.Status != c.Status || !have.LastTransitionTime.Equal(&c.LastTransitionTime) {
				return false
			}
		case !equality.Semantic.DeepEqual(c, *have):
			return false
		}
	}
	return true
}

// withTransition returns a condition with the time of its last transition.
func withTransition(have *metav1.Condition, want metav1.Condition, now time.Time) metav1.Condition {
	want.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if have != nil && have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	return want
}
