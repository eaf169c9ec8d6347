package decide

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/printable"
)

// Initiators: who caused an event.
const (
	ByUser    = "user"    // by what the resource says, or by deleting the pod
	ByGuest   = "guest"   // by what runs in the VM
	ByManager = "manager" // by a rule
	ByNode    = "node"    // or by the control plane in its place
	ByRunner  = "runner"  // or by QEMU
)

// An Event is something that has happened to a VM. It is written once, no matter how often
// it is found: its object's name is made of the VM, Reason and Key.
type Event struct {
	Reason, Action, Initiator, Note string
	// Key distinguishes it from others with the same reason.
	Key     string
	Warning bool
}

// Events returns what has happened between the VM's status and a new phase.
func Events(s Situation, found Findings, p Phase) []Event {
	was := s.VM.Status
	var all []Event
	if p.Phase != was.Phase {
		all = append(all, transition(s, p)...)
	}
	if f := s.Failures; f != nil && f.Count > 0 && (was.Failures == nil || f.LastTime != was.Failures.LastTime) {
		reason, message := p.Reason, p.Message
		if p.Phase != v1.PhaseFailed { // it failed unnoticed, and is running again
			reason, message = failure(f.Last)
		}
		all = append(all, Event{reason, "Start", s.culprit(), message, f.LastTime.UTC().Format(time.RFC3339), true})
	}
	if found.Type.Status == metav1.ConditionFalse {
		have := meta.FindStatusCondition(was.Conditions, v1.ConditionVMTypeAccepted)
		if have == nil || have.Message != found.Type.Message {
			key := fmt.Sprint(s.VM.Generation, found.Type.Message)
			all = append(all, Event{found.Type.Reason, "CheckType", ByUser, found.Type.Message, key, true})
		}
	}
	if p.Reason != was.Reason && (p.Reason == ReasonWaitingForOldPod || p.Reason == ReasonNodeLost) {
		all = append(all, Event{p.Reason, "Start", ByNode, p.Message, podsOf(s), true})
	}
	return all
}

// transition is that to another phase.
func transition(s Situation, p Phase) []Event {
	switch {
	case p.Phase == v1.PhaseRunning:
		initiator := ByUser
		if s.Failures != nil && s.Failures.Count > 0 {
			initiator = ByManager
		}
		note := "the guest is running on node " + s.Pod.Spec.NodeName
		return []Event{{"Started", "Start", initiator, note, string(s.Pod.UID), false}}
	case p.Phase == v1.PhaseStopped && s.VM.Status.Runner != nil:
		uid := string(s.VM.Status.Runner.PodUID)
		if o := s.endedForGood(); o != nil {
			return []Event{stoppedFor(s.VM, o, uid)}
		}
		note := "the VM has stopped because " + s.notWanted() + howEnded(s.VM.Status.Runner)
		return []Event{{"Stopped", "Stop", ByUser, note, uid, false}}
	case p.Reason == ReasonPodDeleted:
		note := "pod " + s.Pod.Name + " is being deleted; the VM is started again in a new one"
		return []Event{{"Restarting", "Restart", s.deleter(), note, string(s.Pod.UID), false}}
	}
	return nil
}

// stoppedFor is that a VM was stopped because of how its guest has ended.
func stoppedFor(vm *v1.VirtualMachine, o *v1.Outcome, uid string) Event {
	by := "spec.guestShutdownStops"
	if vm.Spec.RunPolicy != "" {
		by = fmt.Sprintf("spec.runPolicy %s", vm.Spec.RunPolicy)
	}
	if o.Cause == causeGuest {
		note := fmt.Sprintf("the guest has shut itself down, and the VM is stopped with it (%s)", by)
		return Event{"Stopped", "Stop", ByGuest, note, uid, false}
	}
	_, message := failure(o)
	note := fmt.Sprintf("the VM has crashed, and stays off (%s): %s", by, message)
	return Event{"Stopped", "Stop", ByManager, note, uid, true}
}

// howEnded adds how the machine ended if it did not as requested.
func howEnded(runner *v1.RunnerStatus) string {
	if runner.Outcome == nil || runner.Outcome.Cause == causeAsked {
		return ""
	}
	return ": " + runner.Outcome.Cause
}

// deleter is who deletes the pod, as far as the pod shows.
func (s Situation) deleter() string {
	if c := condition(s.Pod, corev1.DisruptionTarget); c != nil && c.Reason != "EvictionByEvictionAPI" {
		return ByNode
	}
	return ByUser
}

// culprit is who made the machine fail.
func (s Situation) culprit() string {
	if r := s.VM.Status.Runner; r != nil && r.Outcome != nil && r.Outcome.Cause == causePanic {
		return ByGuest
	}
	if nodeMissing(s.Failures.Last) {
		return ByUser
	}
	return ByRunner
}

// PodReplaced is that the machine in a pod has ended, or that the pod could not be
// started, and that another one follows. why is the decision's.
func PodReplaced(s *Snapshot, why string) Event {
	uid := string(s.Pod.UID)
	if Stuck(s.Pod) {
		note := "pod " + s.Pod.Name + " could not be started, and the definition has changed: a new pod is created"
		return Event{"Restarting", "Restart", ByUser, note, uid, false}
	}
	initiator := ByRunner
	if o := OutcomeIn(s.VM, s.Pod); o != nil && o.ExitCode == 0 {
		initiator = ByGuest
	}
	note := "the machine has ended (" + why + "); it is started again in a new pod"
	return Event{"Restarting", "Restart", initiator, note, uid, false}
}

// RestartedFor is that the manager restarts a VM for the changes that await it.
func RestartedFor(s *Snapshot) Event {
	note := "the manager restarts the VM for what awaits that (spec.disruptions.restartApprovalMode is Automatic)"
	return Event{"AutomaticRestart", "Restart", ByManager, note, string(s.Pod.UID), false}
}

// Requested is that a user of the manager's pages has requested something: what is the action
// in one word, note says more. Key is unique.
func Requested(what, user, note, key string) Event {
	return Event{"Requested", what, ByUser, Readable(RequestedBy(user) + note), key, false}
}

// longestUser bounds the name of a user in an event, in bytes.
const longestUser = 256

// User returns the name of a user as events have it.
func User(name string) string { return Shorten(printable.Line(name), longestUser) }

// RequestedBy is how the note of Requested begins.
func RequestedBy(user string) string { return user + " has requested: " }

// StatusRefused is that the API server doesn't accept a VM's status.
func StatusRefused(generation int64, message string) Event {
	note := "the API server rejects the VM's status, which is therefore out of date: " + message
	return Event{"StatusNotWritten", "WriteStatus", ByManager, note, fmt.Sprint(generation), true}
}

// ClaimGrown is that a claim requests more storage.
func ClaimGrown(name string, uid types.UID, from, to string) Event {
	note := fmt.Sprintf("PersistentVolumeClaim %s now requests %s instead of %s", name, to, from)
	return Event{"ClaimGrown", "GrowClaim", ByUser, note, string(uid) + to, false}
}

// ClaimNotChanged is that a claim is not as the definition says, and stays so.
func ClaimNotChanged(problem string, uid types.UID) Event {
	return Event{"ClaimNotChanged", "ChangeClaim", ByUser, problem, string(uid) + problem, true}
}

// ClaimDeleted is that a claim is being deleted, or is gone. uid is the claim's or, if that
// is not known, its pod's.
func ClaimDeleted(message string, uid types.UID) Event {
	return Event{ReasonClaimDeleted, "DeleteClaim", ByUser, message, string(uid), true}
}

// ClaimMade is that a VM that has run before has a new claim: it was added, or lost.
func ClaimMade(claim *objects.Claim, uid types.UID) Event {
	note := fmt.Sprintf("PersistentVolumeClaim %s has been created for %s: it is empty", claim.Name, Purpose(claim))
	if HasMachineState(claim) {
		note += ", since the previous one is gone: the machine gets a new uuid, firmware variables and TPM"
	}
	return Event{"ClaimMade", "MakeClaim", ByManager, note, string(uid), HasMachineState(claim)}
}

// Purpose says what a claim is for: a field of the VM, or the runner's data.
func Purpose(claim *objects.Claim) string { return cmp.Or(claim.Path, "the runner's data") }

// HasMachineState reports whether a claim holds the machine's uuid, NVRAM and TPM.
func HasMachineState(claim *objects.Claim) bool { return claim.Path == "" }

// podsOf distinguishes situations by the pods there are.
func podsOf(s Situation) string {
	if s.Pod != nil {
		return string(s.Pod.UID)
	}
	for _, stray := range s.Strays {
		return string(stray.UID)
	}
	return ""
}
