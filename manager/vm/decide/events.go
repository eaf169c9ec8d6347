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
	"vmop/internal/printable"
	"vmop/manager/vm/objects"
)

// Initiators of events.
const (
	ByUser    = "user"    // by changing the resource, or by deleting the pod
	byGuest   = "guest"   // software in the VM
	ByManager = "manager" // by a rule
	byNode    = "node"    // or the control plane on behalf of the node
	byRunner  = "runner"  // or QEMU
)

// Event describes something that happened to a VM. It is written only once, even if it is found several times: the name
// of its object is derived from the VM, Reason and Key.
type Event struct {
	Reason, Action, Initiator, Note string
	// Key distinguishes the event from others with the same reason.
	Key     string
	Warning bool
}

// Events returns what happened between the VM's recorded status and its new phase.
func Events(s Situation, found Findings, p Phase) []Event {
	was := s.VM.Status
	var all []Event
	if p.Phase != was.Phase {
		all = append(all, phaseEvents(s, p)...)
	}
	if f := s.Failures; f != nil && f.Count > 0 && (was.Failures == nil || f.LastTime != was.Failures.LastTime) {
		reason, message := p.Reason, p.Message
		if p.Phase != v1.PhaseFailed { // the failure went unnoticed, and the VM is running again
			reason, message = failureOf(f.Last)
		}
		all = append(all, Event{reason, "Start", s.whoFailed(), message, f.LastTime.UTC().Format(time.RFC3339), true})
	}
	if found.Type.Status == metav1.ConditionFalse {
		have := meta.FindStatusCondition(was.Conditions, v1.ConditionVMTypeAccepted)
		if have == nil || have.Message != found.Type.Message {
			key := fmt.Sprint(s.VM.Generation, found.Type.Message)
			all = append(all, Event{found.Type.Reason, "CheckType", ByUser, found.Type.Message, key, true})
		}
	}
	if p.Reason != was.Reason && (p.Reason == reasonWaitingForOldPod || p.Reason == reasonNodeLost) {
		all = append(all, Event{p.Reason, "Start", byNode, p.Message, podsOf(s), true})
	}
	return all
}

// phaseEvents returns the events of a change to another phase.
func phaseEvents(s Situation, p Phase) []Event {
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
	case p.Reason == reasonPodDeleted:
		note := "pod " + s.Pod.Name + " is being deleted; the VM restarts in a new pod"
		return []Event{{"Restarting", "Restart", s.whoDeletesPod(), note, string(s.Pod.UID), false}}
	}
	return nil
}

// stoppedFor returns the event that a VM was stopped because of how its guest ended.
func stoppedFor(vm *v1.VirtualMachine, o *v1.Outcome, uid string) Event {
	by := "spec.guestShutdownStops"
	if vm.Spec.RunPolicy != "" {
		by = fmt.Sprintf("spec.runPolicy %s", vm.Spec.RunPolicy)
	}
	if o.Cause == causeGuest {
		note := fmt.Sprintf("the guest has shut down, and the VM was stopped (%s)", by)
		return Event{"Stopped", "Stop", byGuest, note, uid, false}
	}
	_, message := failureOf(o)
	note := fmt.Sprintf("the VM has crashed, and stays off (%s): %s", by, message)
	return Event{"Stopped", "Stop", ByManager, note, uid, true}
}

// howEnded returns a suffix that describes an unrequested end of the machine.
func howEnded(runner *v1.RunnerStatus) string {
	if runner.Outcome == nil || runner.Outcome.Cause == causeAsked {
		return ""
	}
	return ": " + runner.Outcome.Cause
}

// whoDeletesPod returns who deletes the pod, as far as the pod shows it.
func (s Situation) whoDeletesPod() string {
	if c := podCondition(s.Pod, corev1.DisruptionTarget); c != nil && c.Reason != "EvictionByEvictionAPI" {
		return byNode
	}
	return ByUser
}

// whoFailed returns who caused the machine's failure.
func (s Situation) whoFailed() string {
	if r := s.VM.Status.Runner; r != nil && r.Outcome != nil && r.Outcome.Cause == causePanic {
		return byGuest
	}
	if isNodeMissing(s.Failures.Last) {
		return ByUser
	}
	return byRunner
}

// PodReplaced returns the event that a pod is replaced because its machine has ended or the pod could not start. why
// is the reason in the decision.
func PodReplaced(s *Snapshot, why string) Event {
	uid := string(s.Pod.UID)
	if Stuck(s.Pod) {
		note := "pod " + s.Pod.Name + " could not be started, and the definition has changed: a new pod is created"
		return Event{"Restarting", "Restart", ByUser, note, uid, false}
	}
	initiator := byRunner
	if o := OutcomeIn(s.VM, s.Pod); o != nil && o.ExitCode == 0 {
		initiator = byGuest
	}
	note := "the machine has ended (" + why + "); it restarts in a new pod"
	return Event{"Restarting", "Restart", initiator, note, uid, false}
}

// RestartedFor returns the event that the manager restarts a VM to apply pending changes.
func RestartedFor(s *Snapshot) Event {
	note := "the manager restarts the VM to apply pending changes (spec.disruptions.restartApprovalMode is Automatic)"
	return Event{"AutomaticRestart", "Restart", ByManager, note, string(s.Pod.UID), false}
}

// Requested returns the event that a user of the manager's web pages requested something. what is the action in one
// word, note describes it, and key is unique.
func Requested(what, user, note, key string) Event {
	return Event{"Requested", what, ByUser, Readable(RequestedBy(user) + note), key, false}
}

// longestUser bounds a user's name in an event, in bytes.
const longestUser = 256

// User returns a user's name in the form that events use.
func User(name string) string { return Shorten(printable.Line(name), longestUser) }

// RequestedBy returns the beginning of the note of a Requested event.
func RequestedBy(user string) string { return user + " has requested: " }

// StatusRefused returns the event that the API server rejects a VM's status.
func StatusRefused(generation int64, message string) Event {
	note := "the API server rejects the VM's status, which is therefore out of date: " + message
	return Event{"StatusNotWritten", "WriteStatus", ByManager, note, fmt.Sprint(generation), true}
}

// ClaimGrown returns the event that a claim requests more storage.
func ClaimGrown(name string, uid types.UID, from, to string) Event {
	note := fmt.Sprintf("PersistentVolumeClaim %s now requests %s instead of %s", name, to, from)
	return Event{"ClaimGrown", "GrowClaim", ByUser, note, string(uid) + to, false}
}

// ClaimNotChanged returns the event that a claim differs from its definition and can't be changed.
func ClaimNotChanged(problem string, uid types.UID) Event {
	return Event{"ClaimNotChanged", "ChangeClaim", ByUser, problem, string(uid) + problem, true}
}

// ClaimDeleted returns the event that a claim is being deleted or is gone. uid belongs to the claim or, if that is
// unknown, to its pod.
func ClaimDeleted(message string, uid types.UID) Event {
	return Event{ReasonClaimDeleted, "DeleteClaim", ByUser, message, string(uid), true}
}

// ClaimMade returns the event that a VM that has run before has a new claim: the claim was added, or replaces a lost
// claim.
func ClaimMade(claim *objects.Claim, uid types.UID) Event {
	note := fmt.Sprintf("PersistentVolumeClaim %s has been created for %s: it is empty", claim.Name, Purpose(claim))
	if HasMachineState(claim) {
		note += ", since the previous one is gone: the machine gets a new uuid, firmware variables and TPM"
	}
	return Event{"ClaimMade", "MakeClaim", ByManager, note, string(uid), HasMachineState(claim)}
}

// Purpose returns what a claim is used for: a field of the VM, or the runner's data.
func Purpose(claim *objects.Claim) string { return cmp.Or(claim.Path, "the runner's data") }

// HasMachineState reports whether a claim holds the machine's uuid, NVRAM and TPM.
func HasMachineState(claim *objects.Claim) bool { return claim.Path == "" }

// podsOf returns a key that distinguishes situations by their pods.
func podsOf(s Situation) string {
	if s.Pod != nil {
		return string(s.Pod.UID)
	}
	for _, stray := range s.Strays {
		return string(stray.UID)
	}
	return ""
}
