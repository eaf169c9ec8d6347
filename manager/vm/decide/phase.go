package decide

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/vmstatus"
)

// Phase is the state of a VM as users see it.
type Phase struct {
	Phase           v1.Phase
	Reason, Message string
	// Fleeting is set for phases that every starting VM passes through. They are written to the status only if they
	// last.
	Fleeting bool
}

// Reasons of phases.
const (
	ReasonDeleted          = "Deleted"
	ReasonStopped          = "Stopped"
	ReasonStopRequested    = "StopRequested"
	reasonPodDeleted       = "PodDeleted"
	ReasonGuestShutdown    = "GuestShutdown"
	reasonGuestEnded       = "GuestEnded"
	reasonNodeLost         = "NodeLost"
	reasonWaitingForOldPod = "WaitingForOldPod"
	ReasonPodMissing       = "PodMissing"
	ReasonPodRefused       = "PodRefused"
	reasonScheduling       = "Scheduling"
	ReasonUnschedulable    = "Unschedulable"
	ReasonMissingClaim     = "MissingClaim"
	ReasonClaimPending     = "ClaimPending"
	ReasonImagePull        = "ImagePull"
	reasonContainer        = "ContainerNotStarted"
	ReasonPodStarting      = "PodStarting"
	reasonPodFailed        = "PodFailed"
	reasonStartFailed      = "StartFailed"
	ReasonCrashed          = "Crashed"
	reasonNodeMissing      = "NodeMissing"
	reasonRestarting       = "Restarting"
	reasonNoGuestAgent     = "NoGuestAgent"
	ReasonSecretKey        = "SecretKeyMissing" // for a Secret from which the guest configures itself

	// The following are reasons of phases and of the condition Reconciled.
	ReasonNameTaken  = "NameTaken"
	ReasonNotTrusted = "NotTrusted"
	ReasonOldObject  = "WaitingForOldObject"
	ReasonRefused    = "Refused"
	ReasonRetrying   = "Retrying"
	ReasonClaim      = "ClaimNotAsDefined"
	ReasonLimit      = "LimitTooLow"
	ReasonLogging    = "LoggingNotAsMeant"

	ReasonSecretMissing = "SecretMissing" // for a Secret from which the guest configures itself

	ReasonClaimDeleted = "ClaimDeleted"
)

// PhaseOf returns the phase of a VM.
func PhaseOf(s Situation) Phase {
	switch {
	case s.VM.DeletionTimestamp != nil:
		return Phase{v1.PhaseTerminating, ReasonDeleted, s.deletionMessage(), false}
	case s.Pod == nil && !s.Wanted() && len(s.Strays) > 0:
		return Phase{v1.PhaseStopping, reasonWaitingForOldPod, s.notWanted() + "; " + s.strayMessage(), false}
	case s.Pod == nil && !s.Wanted():
		return s.stoppedPhase()
	case s.Pod == nil:
		return s.withoutPod()
	case Terminating(s.Pod):
		return s.withTerminatingPod()
	case !s.Wanted():
		return Phase{
			v1.PhaseStopping, ReasonStopRequested,
			s.notWanted() + "; the pod is about to be deleted", true,
		}
	}
	return s.withPod()
}

// notWanted returns why a VM must not run.
func (s *Snapshot) notWanted() string {
	spec := s.VM.Spec
	switch {
	case !spec.StateIsFree():
		return fmt.Sprintf("spec.runPolicy is %s", spec.RunPolicy)
	case spec.VM.State == v1.Stopped:
		return "spec.vm.state is Stopped"
	case spec.RunPolicy == "":
		return "spec.vm.state is not set, which means Stopped"
	}
	return fmt.Sprintf("spec.runPolicy is %s, and the VM has not been started", spec.RunPolicy)
}

// stoppedPhase returns the phase of a stopped VM that should be stopped.
func (s Situation) stoppedPhase() Phase {
	p := Phase{v1.PhaseStopped, ReasonStopped, s.notWanted(), false}
	if o := s.endedForGood(); o != nil {
		if p.Reason, p.Message = failureOf(o); o.Cause == causeGuest {
			p.Reason, p.Message = ReasonGuestShutdown, "the guest has shut down"
		}
	}
	return p
}

// endedForGood returns the outcome that made the manager stop the VM, or nil if it didn't.
func (s *Snapshot) endedForGood() *v1.Outcome {
	r := s.VM.Status.Runner
	if r == nil || string(r.PodUID) != s.VM.Annotations[AnnotationCarriedOut] {
		return nil
	}
	return r.Outcome
}

// deletionMessage describes what delays the deletion of a VM: while it has a finalizer, all its objects remain.
func (s Situation) deletionMessage() string {
	const message = "the VM is being deleted"
	var held []string
	for _, f := range s.VM.Finalizers {
		if f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents {
			held = append(held, f)
		}
	}
	switch {
	case len(held) == 0:
		return message
	case s.Pod != nil && !Terminating(s.Pod):
		return fmt.Sprintf("%s; it stays, with its guest running, until these finalizers are removed: %s",
			message, strings.Join(held, ", "))
	}
	return fmt.Sprintf("%s; it stays until these finalizers are removed: %s", message, strings.Join(held, ", "))
}

// withoutPod returns the phase of a VM that should run but has no pod.
func (s Situation) withoutPod() Phase {
	switch o := s.Obstacle.(type) {
	case Stalled:
		return Phase{v1.PhaseFailed, o.Reason, o.Message, false}
	case Waiting:
		return Phase{v1.PhasePending, o.Reason, o.Message, false}
	}
	switch at := nextAttempt(s.Failures, s.Now); {
	case len(s.Strays) > 0:
		return Phase{v1.PhasePending, reasonWaitingForOldPod, s.strayMessage(), false}
	case s.Other != nil:
		return Phase{v1.PhasePending, reasonWaitingForOldPod, s.otherMessage(), false}
	case s.Now.Before(at):
		return s.afterFailure(s.VM.Status.Runner)
	}
	return Phase{v1.PhasePending, ReasonPodMissing, fmt.Sprintf("the pod is being created; if it does not appear, "+
		"the events of the StatefulSet show the reason (kubectl describe statefulset %s)", s.VM.Name), true}
}

func (s Situation) strayMessage() string {
	return fmt.Sprintf("pod %s has this VM's label but is not from its StatefulSet, and may use the same disks: "+
		"delete it, or wait until it is gone", s.Strays[0].Name)
}

// otherMessage describes what must happen before the VM gets a pod again.
func (s Situation) otherMessage() string {
	message := fmt.Sprintf("pod %s, the source or target of a migration, is being removed", s.Other.Name)
	if nodeSilent(s.Other) || isOverdue(s.Other, s.Now) {
		message += fmt.Sprintf("; node %s has not confirmed it: %s", s.Other.Spec.NodeName, onceOff(s.Other))
	}
	return message
}

// afterFailure returns the phase of a VM that is started again after a delay.
func (s Situation) afterFailure(runner *v1.RunnerStatus) Phase {
	switch {
	case s.Failures.Last != nil:
		return s.failedPhase(s.Failures.Last)
	case runner != nil:
		return s.failedPhase(runner.Outcome)
	}
	return s.failedPhase(nil)
}

// failureOf returns the reason and message of a failure; a nil outcome is an unknown failure.
func failureOf(outcome *v1.Outcome) (reason, message string) {
	if outcome == nil {
		return reasonStartFailed, "the VM could not be started"
	}
	switch reason = reasonStartFailed; {
	case vmstatus.Cause(outcome.Cause).Crash():
		reason = ReasonCrashed
	case outcome.Reason == reasonNodeMissing:
		reason = reasonNodeMissing
	}
	if outcome.Message == "" {
		return reason, fmt.Sprintf("%s (exit code %d)", outcome.Cause, outcome.ExitCode)
	}
	return reason, outcome.Message
}

// Parts of messages that a runner reports after its QEMU was killed, and a kubelet after a container was killed. A
// memory limit of the kernel is one possible cause.
const (
	sigkill   = "(SIGKILL)"
	oomKilled = "OOMKilled"
)

func (s Situation) failedPhase(outcome *v1.Outcome) Phase {
	reason, message := failureOf(outcome)
	if outcome != nil && outcome.Reason == string(vmstatus.ReasonDataMissing) {
		reason, message = ReasonSecretKey, s.dataMissing(message)
	}
	killed := strings.Contains(message, sigkill) || strings.Contains(message, oomKilled)
	if limit := objects.TightLimit(s.VM); limit != nil && killed {
		message += "; " + limit.String()
	}
	if at := nextAttempt(s.Failures, s.Now); !at.IsZero() {
		message = fmt.Sprintf("%s; consecutive failed starts: %d, next attempt at %s, or when the definition changes",
			Shorten(message, MaxMessage), s.Failures.Count, at.UTC().Format(time.RFC3339))
	}
	return Phase{v1.PhaseFailed, reason, message, false}
}

// withTerminatingPod returns the phase of a VM while its pod is being deleted.
func (s Situation) withTerminatingPod() Phase {
	name := v1.PhaseStopping
	if s.Wanted() {
		name = v1.PhasePending
	}
	switch {
	case nodeSilent(s.Pod) && OutcomeIn(s.VM, s.Pod) == nil:
		return Phase{name, reasonNodeLost, silenceMessage(s.Pod), false}
	case isOverdue(s.Pod, s.Now):
		return Phase{name, reasonNodeLost, fmt.Sprintf("pod %s should be deleted, but node %s has not confirmed it: %s",
			s.Pod.Name, s.Pod.Spec.NodeName, onceOff(s.Pod)), false}
	case keepsFirstGrace(s.Pod, s.Now):
		reason := reasonPodDeleted
		if !s.Wanted() {
			reason = ReasonStopRequested
		}
		return Phase{v1.PhaseStopping, reason, fmt.Sprintf("the guest has been asked to shut down, and has until %s "+
			"at the latest: a kubelet keeps the grace period that applied when the deletion of the pod began; "+
			"to end the guest now: kubectl exec %s -- vmrunner stop --force",
			latestEnd(s.Pod).UTC().Format(time.RFC3339), s.Pod.Name), false}
	case !s.Wanted():
		return Phase{v1.PhaseStopping, ReasonStopRequested, "the guest has been asked to shut down", false}
	case s.Now.Before(nextAttempt(s.Failures, s.Now)):
		return s.afterFailure(&v1.RunnerStatus{Outcome: OutcomeIn(s.VM, s.Pod)})
	case OutcomeIn(s.VM, s.Pod) != nil:
		return Phase{
			v1.PhasePending, reasonWaitingForOldPod,
			fmt.Sprintf("a new pod is created when pod %s is gone", s.Pod.Name), true,
		}
	}
	return Phase{
		v1.PhaseStopping, reasonPodDeleted,
		"the pod is being deleted: the guest has been asked to shut down, and restarts in a new pod", false,
	}
}

// withPod returns the phase of a VM that should run and has a pod.
func (s Situation) withPod() Phase {
	outcome := OutcomeIn(s.VM, s.Pod)
	switch {
	case outcome != nil && outcome.Cause != causeGuest && s.staysOff():
		reason, message := failureOf(outcome)
		return Phase{v1.PhaseStopping, reason, message, true}
	case isFailure(outcome):
		return s.failedPhase(outcome)
	case outcome != nil && outcome.Cause == causeGuest:
		return Phase{v1.PhaseStopping, ReasonGuestShutdown, "the guest has shut down", true}
	case outcome != nil:
		return Phase{
			v1.PhaseStopping, reasonGuestEnded,
			"the VM has ended: " + cmp.Or(outcome.Message, outcome.Cause), true,
		}
	case s.Pod.Status.Phase == corev1.PodFailed:
		return Phase{
			v1.PhasePending, cmp.Or(s.Pod.Status.Reason, reasonPodFailed),
			cmp.Or(Readable(s.Pod.Status.Message), "the pod has failed; a new pod is created"), false,
		}
	case s.Pod.Spec.NodeName == "":
		return unscheduledPhase(s.Pod)
	case !isContainerRunning(s.Pod):
		return notStarted(s.Pod)
	}
	return s.withRunner()
}

// unscheduledPhase returns the phase for a pod without a node.
func unscheduledPhase(pod *corev1.Pod) Phase {
	c := podCondition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse {
		return Phase{v1.PhasePending, reasonScheduling, "waiting for the scheduler to select a node", true}
	}
	return Phase{v1.PhasePending, unscheduledReason(c), Readable(c.Message), false}
}

// notStarted returns the phase for a pod on a node before its container runs.
func notStarted(pod *corev1.Pod) Phase {
	w := runnerContainer(pod).State.Waiting
	switch {
	case nodeSilent(pod):
		return Phase{v1.PhasePending, reasonNodeLost, silenceMessage(pod), false}
	case !AcknowledgeBy(pod).IsZero():
		return Phase{v1.PhaseStarting, ReasonPodStarting, fmt.Sprintf("node %s (spec.nodeName) has not acknowledged "+
			"the pod yet; a node that does not exist never does (kubectl get node %[1]s)", pod.Spec.NodeName), false}
	case w == nil, beingCreated(w):
		return startingPhase()
	case w.Reason == "CrashLoopBackOff":
		return Phase{v1.PhaseStarting, reasonRestarting, Readable(w.Message), false}
	case imageMissing(w):
		return Phase{v1.PhasePending, ReasonImagePull, Readable(w.Reason + ": " + w.Message), false}
	}
	return Phase{v1.PhasePending, reasonContainer, Readable(w.Reason + ": " + w.Message), false}
}

// withRunner returns the phase of a VM with a running runner.
func (s Situation) withRunner() Phase {
	runner := reportedStatus(s.VM, s.Pod)
	switch {
	case nodeSilent(s.Pod):
		return Phase{v1.PhaseRunning, reasonNodeLost, silenceMessage(s.Pod), false}
	case runner == nil:
		return startingPhase()
	}
	if m := s.VM.Status.Migration; m.Active() && (runner.State == stateRunning || runner.State == stateBooting ||
		runner.State == stateBooted) {
		return Phase{v1.PhaseMigrating, string(m.Stage), m.Message, false}
	}
	switch runner.State {
	case stateRunning:
		return Phase{v1.PhaseRunning, reasonNoGuestAgent, runner.Message, false}
	case stateBooting, stateBooted:
		return Phase{v1.PhaseRunning, "", "", false}
	case stateTerminating, stateStopped:
		return Phase{v1.PhaseStopping, reasonGuestEnded, "the machine is being stopped", false}
	}
	return startingPhase()
}

// startingPhase returns the single phase for everything that happens in the pod before the guest runs; the runner
// reports the details.
func startingPhase() Phase {
	return Phase{v1.PhaseStarting, ReasonPodStarting, "the pod is starting", false}
}

func silenceMessage(pod *corev1.Pod) string {
	return fmt.Sprintf("node %s no longer reports, so it is not known whether the guest is running; %s",
		pod.Spec.NodeName, onceOff(pod))
}

// onceOff describes what only a person who has checked the node can do: otherwise two QEMUs could use the same
// disks.
func onceOff(pod *corev1.Pod) string {
	return fmt.Sprintf("once the node is certainly off, give it the taint %s, or force the pod's deletion (kubectl delete pod %s --force)",
		corev1.TaintNodeOutOfService, pod.Name)
}
