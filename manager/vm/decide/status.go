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
	"vmop/manager/pool"
	"vmop/manager/vm/objects"
)

// Findings are the results of a reconciliation's steps that appear in the VM's status.
type Findings struct {
	// Type is the condition VMTypeAccepted.
	Type Verdict
	// Architecture of the guest; "" if it is unknown, or not the architecture of a node.
	Architecture string
	// Changes need a new pod. Applied means that the VM's StatefulSet is known to create pods from the current
	// definition.
	Changes []v1.RestartAwaitingChange
	Applied bool
	// Restart describes how pending changes reach the guest.
	Restart Restart
	// Problems form the condition Reconciled.
	Problems []Problem
	// Volumes are the VM's claims.
	Volumes []v1.Volume
	// IPAddress is the VM's VirtualMachineIPAddress; "" if it has none.
	IPAddress string
	// BlockDevices are the VM's disks that outlive it.
	BlockDevices []v1.BlockDeviceStatusRef
}

// reasonNotStarted is the reason of the machine's conditions of a VM that has never run.
const reasonNotStarted = "NotStarted"

// Status returns the manager's part of a VM's status.
func Status(s Situation, found Findings, p Phase) v1.VirtualMachineStatus {
	is := s.VM.Status
	status := v1.VirtualMachineStatus{
		ObservedGeneration: s.VM.Generation,
		Phase:              p.Phase, Reason: p.Reason, Message: Shorten(p.Message, MaxMessage),
		Failures: s.Failures, Volumes: found.Volumes, VirtualMachineIPAddressName: found.IPAddress,
		VirtualMachineClassName: s.Class.inForce(), BlockDeviceRefs: found.BlockDevices,
		ConsoleUser: pool.ConsoleUser(s.VM), Architecture: found.Architecture, TypeSizes: is.TypeSizes,
	}
	if s.Pod != nil {
		status.NodeName = s.Pod.Spec.NodeName
	}
	if s.VM.DeletionTimestamp != nil { // the reconciliation took no step
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

// firstConditions returns the machine's conditions for a VM before its first run. They replace the defaults of the
// resource's definition, which lack a time and a meaningful reason.
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

// managerConditions returns the conditions that the manager maintains.
func managerConditions(s Situation, found Findings) []metav1.Condition {
	all := map[string]Verdict{
		v1.ConditionVMTypeAccepted:  found.Type,
		v1.ConditionRestartRequired: found.Restart.Condition,
		v1.ConditionReconciled:      reconciledVerdict(found.Problems),
		v1.ConditionMigratable:      checkMigratable(s.Snapshot),
		v1.ConditionSizingMatched:   s.Class.classVerdict(),
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

// reconciledVerdict reports whether the cluster contains what the definition asks for.
func reconciledVerdict(problems []Problem) Verdict {
	if len(problems) == 0 {
		return Verdict{metav1.ConditionTrue, "Done", ""}
	}
	var messages []string
	for _, p := range problems {
		if !slices.Contains(messages, p.Message) { // two steps can report the same problem
			messages = append(messages, p.Message)
		}
	}
	return Verdict{metav1.ConditionFalse, problems[0].Reason, Shorten(strings.Join(messages, "; "), MaxMessage)}
}

// changesOfPod selects the manager's changes from all pending changes.
func changesOfPod(all []v1.RestartAwaitingChange) []v1.RestartAwaitingChange {
	return slices.DeleteFunc(slices.Clone(all), func(c v1.RestartAwaitingChange) bool { return !objects.OfPod(c.Path) })
}

// sameChange reports whether two changes are equal, regardless of how the JSON of their values is formatted.
func sameChange(a, b v1.RestartAwaitingChange) bool {
	currentA, desiredA := a.Values()
	currentB, desiredB := b.Values()
	return a.Path == b.Path && a.Operation == b.Operation && reflect.DeepEqual(currentA, currentB) &&
		reflect.DeepEqual(desiredA, desiredB)
}

// SameStatus reports whether a status already contains the manager's part.
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
		case c.Reason == reasonNotStarted: // reason and message may come from the resource's definition
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
