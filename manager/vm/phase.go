package vm

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// phase is the state of a VM for people.
type phase struct {
	phase           v1.Phase
	reason, message string
	// fleeting phases are passed through by every VM that starts; they are told
	// if they last.
	fleeting bool
}

// Reasons of phases.
const (
	reasonDeleted          = "Deleted"
	reasonStopped          = "Stopped"
	reasonStopRequested    = "StopRequested"
	reasonPodDeleted       = "PodDeleted"
	reasonGuestShutdown    = "GuestShutdown"
	reasonGuestEnded       = "GuestEnded"
	reasonNodeLost         = "NodeLost"
	reasonWaitingForOldPod = "WaitingForOldPod"
	reasonPodMissing       = "PodMissing"
	reasonPodRefused       = "PodRefused"
	reasonScheduling       = "Scheduling"
	reasonUnschedulable    = "Unschedulable"
	reasonMissingClaim     = "MissingClaim"
	reasonClaimPending     = "ClaimPending"
	reasonImagePull        = "ImagePull"
	reasonContainer        = "ContainerNotStarted"
	reasonPodStarting      = "PodStarting"
	reasonPodFailed        = "PodFailed"
	reasonStartFailed      = "StartFailed"
	reasonCrashed          = "Crashed"
	reasonNodeMissing      = "NodeMissing"
	reasonRestarting       = "Restarting"

	// Of phases and of the condition Reconciled.
	reasonNameTaken  = "NameTaken"
	reasonNotTrusted = "NotTrusted"
	reasonOldObject  = "WaitingForOldObject"
	reasonRefused    = "Refused"
	reasonRetrying   = "Retrying"
	reasonClaim      = "ClaimNotAsDefined"
	reasonLimit      = "LimitTooLow"
	reasonLogging    = "LoggingNotAsMeant"

	reasonClaimDeleted = "ClaimDeleted"
)

// phaseOf says how a VM is.
func phaseOf(s situation) phase {
	switch {
	case s.vm.DeletionTimestamp != nil:
		return phase{v1.PhaseTerminating, reasonDeleted, s.deletion(), false}
	case s.pod == nil && !s.wanted():
		return phase{v1.PhaseStopped, reasonStopped, "the VM shall not run", false}
	case s.pod == nil:
		return s.withoutPod()
	case terminating(s.pod):
		return s.withPodThatGoes()
	case !s.wanted():
		return phase{v1.PhaseStopping, reasonStopRequested, "the VM shall not run: its pod is about to be deleted", true}
	}
	return s.withPod()
}

// deletion says what a VM waits for that is being deleted: as long as somebody holds it,
// nothing of it goes.
func (s situation) deletion() string {
	const message = "the VM is being deleted"
	var held []string
	for _, f := range s.vm.Finalizers {
		if f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents {
			held = append(held, f)
		}
	}
	switch {
	case len(held) == 0:
		return message
	case s.pod != nil && !terminating(s.pod):
		return fmt.Sprintf("%s; it stays, and its guest runs on, until these finalizers are removed: %s", message, strings.Join(held, ", "))
	}
	return fmt.Sprintf("%s; it stays until these finalizers are removed: %s", message, strings.Join(held, ", "))
}

// withoutPod is for a VM that shall run.
func (s situation) withoutPod() phase {
	switch hold := s.hold.(type) {
	case stalled:
		return phase{v1.PhaseFailed, hold.reason, hold.message, false}
	case waiting:
		return phase{v1.PhasePending, hold.reason, hold.message, false}
	}
	switch at := nextAttempt(s.failures, s.now); {
	case len(s.strays) > 0:
		return phase{v1.PhasePending, reasonWaitingForOldPod, s.strayMessage(), false}
	case s.now.Before(at):
		return s.hasFailed(s.vm.Status.Runner)
	}
	return phase{v1.PhasePending, reasonPodMissing, fmt.Sprintf("its pod is being made; if it is not, the events of the StatefulSet say why (kubectl describe statefulset %s)", s.vm.Name), true}
}

func (s situation) strayMessage() string {
	return fmt.Sprintf("pod %s, which says that it is this VM's and is not of its stateful set, may use the same disks: delete it, or wait until it is gone", s.strays[0].Name)
}

// hasFailed is for a VM that is started again after a time.
func (s situation) hasFailed(said *v1.RunnerStatus) phase {
	switch {
	case s.failures.Last != nil:
		return s.failed(s.failures.Last)
	case said != nil:
		return s.failed(said.Outcome)
	}
	return s.failed(nil)
}

// failure says how a VM has failed; nil is not known.
func failure(outcome *v1.Outcome) (reason, message string) {
	if outcome == nil {
		return reasonStartFailed, "the VM could not be started"
	}
	switch reason = reasonStartFailed; {
	case crashed(outcome.Cause):
		reason = reasonCrashed
	case outcome.Reason == reasonNodeMissing:
		reason = reasonNodeMissing
	}
	if outcome.Message == "" {
		return reason, fmt.Sprintf("%s (exit code %d)", outcome.Cause, outcome.ExitCode)
	}
	return reason, outcome.Message
}

func (s situation) failed(outcome *v1.Outcome) phase {
	reason, message := failure(outcome)
	if at := nextAttempt(s.failures, s.now); !at.IsZero() {
		message = fmt.Sprintf("%s; failed starts in a row: %d, next attempt at %s, or when the definition changes",
			shorten(message, maxMessage), s.failures.Count, at.UTC().Format(time.RFC3339))
	}
	return phase{v1.PhaseFailed, reason, message, false}
}

// withPodThatGoes is for a VM whose pod is being deleted.
func (s situation) withPodThatGoes() phase {
	name := v1.PhaseStopping
	if s.wanted() {
		name = v1.PhasePending
	}
	switch {
	case nodeSilent(s.pod) && ending(s.vm, s.pod) == nil:
		return phase{name, reasonNodeLost, silence(s.pod), false}
	case overdue(s.pod, s.now):
		return phase{name, reasonNodeLost, fmt.Sprintf("pod %s should be gone, but node %s does not say so: %s", s.pod.Name, s.pod.Spec.NodeName, whenOff(s.pod)), false}
	case !s.wanted():
		return phase{v1.PhaseStopping, reasonStopRequested, "the guest has been asked to shut down", false}
	case s.now.Before(nextAttempt(s.failures, s.now)):
		return s.hasFailed(&v1.RunnerStatus{Outcome: ending(s.vm, s.pod)})
	case ending(s.vm, s.pod) != nil:
		return phase{v1.PhasePending, reasonWaitingForOldPod, fmt.Sprintf("a new pod follows when pod %s is gone", s.pod.Name), true}
	}
	return phase{v1.PhaseStopping, reasonPodDeleted, "its pod is being deleted: the guest has been asked to shut down, and is started again in a new one", false}
}

// withPod is for a VM that shall run, and has a pod to run in.
func (s situation) withPod() phase {
	outcome := ending(s.vm, s.pod)
	switch {
	case outcome != nil && outcome.ExitCode != 0 && outcome.Cause != causeAsked:
		return s.failed(outcome)
	case outcome != nil && outcome.Cause == causeGuest:
		return phase{v1.PhaseStopping, reasonGuestShutdown, "the guest has shut itself down", true}
	case outcome != nil:
		return phase{v1.PhaseStopping, reasonGuestEnded, "the machine has ended: " + cmp.Or(outcome.Message, outcome.Cause), true}
	case s.pod.Status.Phase == corev1.PodFailed:
		return phase{v1.PhasePending, cmp.Or(s.pod.Status.Reason, reasonPodFailed), cmp.Or(readable(s.pod.Status.Message), "the pod has failed; a new one follows"), false}
	case s.pod.Spec.NodeName == "":
		return unscheduled(s.pod)
	case !runs(s.pod):
		return notStarted(s.pod)
	}
	return s.withRunner()
}

// unscheduled is for a pod that has no node.
func unscheduled(pod *corev1.Pod) phase {
	c := condition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse {
		return phase{v1.PhasePending, reasonScheduling, "a node is being looked for", true}
	}
	reason := cmp.Or(c.Reason, reasonUnschedulable)
	switch {
	case strings.Contains(c.Message, "persistentvolumeclaim ") && strings.Contains(c.Message, "not found"):
		reason = reasonMissingClaim
	case strings.Contains(c.Message, "unbound immediate PersistentVolumeClaims"), strings.Contains(c.Message, "didn't find available persistent volumes to bind"),
		strings.Contains(c.Message, "binding volumes"):
		reason = reasonClaimPending
	}
	return phase{v1.PhasePending, reason, readable(c.Message), false}
}

// notStarted is for a pod whose container does not run on its node.
func notStarted(pod *corev1.Pod) phase {
	w := container(pod).State.Waiting
	switch {
	case nodeSilent(pod):
		return phase{v1.PhasePending, reasonNodeLost, silence(pod), false}
	case w == nil, w.Reason == "ContainerCreating", w.Reason == "PodInitializing":
		return starting()
	case w.Reason == "CrashLoopBackOff":
		return phase{v1.PhaseStarting, reasonRestarting, readable(w.Message), false}
	case strings.Contains(w.Reason, "Image"), w.Reason == "RegistryUnavailable":
		return phase{v1.PhasePending, reasonImagePull, readable(w.Reason + ": " + w.Message), false}
	}
	return phase{v1.PhasePending, reasonContainer, readable(w.Reason + ": " + w.Message), false}
}

// withRunner is for a VM whose runner runs.
func (s situation) withRunner() phase {
	said := word(s.vm, s.pod)
	switch {
	case nodeSilent(s.pod):
		return phase{v1.PhaseRunning, reasonNodeLost, silence(s.pod), false}
	case said == nil:
		return starting()
	}
	switch said.State {
	case stateBooting, stateBooted:
		return phase{v1.PhaseRunning, "", "", false}
	case stateTerminating, stateStopped:
		return phase{v1.PhaseStopping, reasonGuestEnded, "the machine is being ended", false}
	}
	return starting()
}

// starting is told once, whatever happens in the pod before the guest runs: the
// runner says more.
func starting() phase {
	return phase{v1.PhaseStarting, reasonPodStarting, "its pod starts", false}
}

func silence(pod *corev1.Pod) string {
	return fmt.Sprintf("node %s does not report any more: whether the guest runs is not known; %s", pod.Spec.NodeName, whenOff(pod))
}

// whenOff is what only somebody who has seen the node can do: else two QEMUs could have
// the same disks.
func whenOff(pod *corev1.Pod) string {
	return fmt.Sprintf("when the node is certainly off, give it the taint %s, or delete the pod by force (kubectl delete pod %s --force)",
		corev1.TaintNodeOutOfService, pod.Name)
}
