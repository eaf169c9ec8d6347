package decide

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/vmstatus"
)

// A Phase is the state of a VM for people.
type Phase struct {
	Phase           v1.Phase
	Reason, Message string
	// Fleeting phases are passed through by every VM that starts; they are written
	// to the status only if they last.
	Fleeting bool
}

// Reasons of phases.
const (
	ReasonDeleted          = "Deleted"
	ReasonStopped          = "Stopped"
	ReasonStopRequested    = "StopRequested"
	ReasonPodDeleted       = "PodDeleted"
	ReasonGuestShutdown    = "GuestShutdown"
	ReasonGuestEnded       = "GuestEnded"
	ReasonNodeLost         = "NodeLost"
	ReasonWaitingForOldPod = "WaitingForOldPod"
	ReasonPodMissing       = "PodMissing"
	ReasonPodRefused       = "PodRefused"
	ReasonScheduling       = "Scheduling"
	ReasonUnschedulable    = "Unschedulable"
	ReasonMissingClaim     = "MissingClaim"
	ReasonClaimPending     = "ClaimPending"
	ReasonImagePull        = "ImagePull"
	ReasonContainer        = "ContainerNotStarted"
	ReasonPodStarting      = "PodStarting"
	ReasonPodFailed        = "PodFailed"
	ReasonStartFailed      = "StartFailed"
	ReasonCrashed          = "Crashed"
	ReasonNodeMissing      = "NodeMissing"
	ReasonRestarting       = "Restarting"
	ReasonNoGuestAgent     = "NoGuestAgent"
	ReasonSecretKey        = "SecretKeyMissing" // of a Secret from which the guest configures itself

	// Of phases and of the condition Reconciled.
	ReasonNameTaken  = "NameTaken"
	ReasonNotTrusted = "NotTrusted"
	ReasonOldObject  = "WaitingForOldObject"
	ReasonRefused    = "Refused"
	ReasonRetrying   = "Retrying"
	ReasonClaim      = "ClaimNotAsDefined"
	ReasonLimit      = "LimitTooLow"
	ReasonLogging    = "LoggingNotAsMeant"

	ReasonSecretMissing = "SecretMissing" // from which the guest configures itself

	ReasonClaimDeleted = "ClaimDeleted"
)

// PhaseOf returns the phase of a VM.
func PhaseOf(s Situation) Phase {
	switch {
	case s.VM.DeletionTimestamp != nil:
		return Phase{v1.PhaseTerminating, ReasonDeleted, s.deletion(), false}
	case s.Pod == nil && !s.Wanted() && len(s.Strays) > 0:
		return Phase{v1.PhaseStopping, ReasonWaitingForOldPod, s.notWanted() + "; " + s.strayMessage(), false}
	case s.Pod == nil && !s.Wanted():
		return s.stopped()
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

// notWanted says why a VM is not to run.
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

// stopped is for a VM that is off, and is to be.
func (s Situation) stopped() Phase {
	p := Phase{v1.PhaseStopped, ReasonStopped, s.notWanted(), false}
	if o := s.endedForGood(); o != nil {
		if p.Reason, p.Message = failure(o); o.Cause == causeGuest {
			p.Reason, p.Message = ReasonGuestShutdown, "the guest has shut itself down"
		}
	}
	return p
}

// endedForGood returns how the guest of a VM has ended last that was stopped for it; nil if
// it was not.
func (s *Snapshot) endedForGood() *v1.Outcome {
	r := s.VM.Status.Runner
	if r == nil || string(r.PodUID) != s.VM.Annotations[AnnotationCarriedOut] {
		return nil
	}
	return r.Outcome
}

// deletion says what a VM waits for that is being deleted: as long as it has a finalizer,
// nothing of it is removed.
func (s Situation) deletion() string {
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

// withoutPod is for a VM that is to run.
func (s Situation) withoutPod() Phase {
	switch o := s.Obstacle.(type) {
	case Stalled:
		return Phase{v1.PhaseFailed, o.Reason, o.Message, false}
	case Waiting:
		return Phase{v1.PhasePending, o.Reason, o.Message, false}
	}
	switch at := nextAttempt(s.Failures, s.Now); {
	case len(s.Strays) > 0:
		return Phase{v1.PhasePending, ReasonWaitingForOldPod, s.strayMessage(), false}
	case s.Other != nil:
		return Phase{v1.PhasePending, ReasonWaitingForOldPod, s.otherMessage(), false}
	case s.Now.Before(at):
		return s.afterFailure(s.VM.Status.Runner)
	}
	return Phase{v1.PhasePending, ReasonPodMissing, fmt.Sprintf("the pod is being created; if it does not appear, "+
		"the events of the StatefulSet say why (kubectl describe statefulset %s)", s.VM.Name), true}
}

func (s Situation) strayMessage() string {
	return fmt.Sprintf("pod %s has this VM's label but is not from its StatefulSet, and may use the same disks: "+
		"delete it, or wait until it is gone", s.Strays[0].Name)
}

// otherMessage says what is awaited before the VM gets a pod again.
func (s Situation) otherMessage() string {
	message := fmt.Sprintf("pod %s, from which the guest has moved or was to come, is being removed", s.Other.Name)
	if nodeSilent(s.Other) || overdue(s.Other, s.Now) {
		message += fmt.Sprintf("; node %s has not confirmed it: %s", s.Other.Spec.NodeName, onceOff(s.Other))
	}
	return message
}

// afterFailure is for a VM that is started again after a delay.
func (s Situation) afterFailure(runner *v1.RunnerStatus) Phase {
	switch {
	case s.Failures.Last != nil:
		return s.failed(s.Failures.Last)
	case runner != nil:
		return s.failed(runner.Outcome)
	}
	return s.failed(nil)
}

// failure returns the reason and message of a failure; nil is one that is not known.
func failure(outcome *v1.Outcome) (reason, message string) {
	if outcome == nil {
		return ReasonStartFailed, "the VM could not be started"
	}
	switch reason = ReasonStartFailed; {
	case vmstatus.Cause(outcome.Cause).Crash():
		reason = ReasonCrashed
	case outcome.Reason == ReasonNodeMissing:
		reason = ReasonNodeMissing
	}
	if outcome.Message == "" {
		return reason, fmt.Sprintf("%s (exit code %d)", outcome.Cause, outcome.ExitCode)
	}
	return reason, outcome.Message
}

// What is in the messages of a runner whose QEMU was killed, and of a kubelet whose container
// was: by the kernel at a limit on memory, among others.
const (
	sigkill   = "(SIGKILL)"
	oomKilled = "OOMKilled"
)

func (s Situation) failed(outcome *v1.Outcome) Phase {
	reason, message := failure(outcome)
	if outcome != nil && outcome.Reason == string(vmstatus.ReasonDataMissing) {
		reason, message = ReasonSecretKey, s.dataMissing(message)
	}
	killed := strings.Contains(message, sigkill) || strings.Contains(message, oomKilled)
	if limit := objects.TightLimit(s.VM); limit != nil && killed {
		message += "; " + limit.String()
	}
	if at := nextAttempt(s.Failures, s.Now); !at.IsZero() {
		message = fmt.Sprintf("%s; failed starts in a row: %d, next attempt at %s, or when the definition changes",
			Shorten(message, MaxMessage), s.Failures.Count, at.UTC().Format(time.RFC3339))
	}
	return Phase{v1.PhaseFailed, reason, message, false}
}

// withTerminatingPod is for a VM whose pod is being deleted.
func (s Situation) withTerminatingPod() Phase {
	name := v1.PhaseStopping
	if s.Wanted() {
		name = v1.PhasePending
	}
	switch {
	case nodeSilent(s.Pod) && OutcomeIn(s.VM, s.Pod) == nil:
		return Phase{name, ReasonNodeLost, silence(s.Pod), false}
	case overdue(s.Pod, s.Now):
		return Phase{name, ReasonNodeLost, fmt.Sprintf("pod %s should be gone, but node %s has not confirmed it: %s",
			s.Pod.Name, s.Pod.Spec.NodeName, onceOff(s.Pod)), false}
	case keepsFirstGrace(s.Pod, s.Now):
		reason := ReasonPodDeleted
		if !s.Wanted() {
			reason = ReasonStopRequested
		}
		return Phase{v1.PhaseStopping, reason, fmt.Sprintf("the guest has been asked to shut down, and has until %s "+
			"at the latest: a kubelet keeps to the grace period with which the deletion of a pod began; "+
			"to end the guest now: kubectl exec %s -- vmrunner stop --force",
			latestEnd(s.Pod).UTC().Format(time.RFC3339), s.Pod.Name), false}
	case !s.Wanted():
		return Phase{v1.PhaseStopping, ReasonStopRequested, "the guest has been asked to shut down", false}
	case s.Now.Before(nextAttempt(s.Failures, s.Now)):
		return s.afterFailure(&v1.RunnerStatus{Outcome: OutcomeIn(s.VM, s.Pod)})
	case OutcomeIn(s.VM, s.Pod) != nil:
		return Phase{
			v1.PhasePending, ReasonWaitingForOldPod,
			fmt.Sprintf("a new pod is created when pod %s is gone", s.Pod.Name), true,
		}
	}
	return Phase{
		v1.PhaseStopping, ReasonPodDeleted,
		"the pod is being deleted: the guest has been asked to shut down, and is started again in a new pod", false,
	}
}

// withPod is for a VM that is to run, and has a pod to run in.
func (s Situation) withPod() Phase {
	outcome := OutcomeIn(s.VM, s.Pod)
	switch {
	case outcome != nil && outcome.Cause != causeGuest && s.staysOff():
		reason, message := failure(outcome)
		return Phase{v1.PhaseStopping, reason, message, true}
	case isFailure(outcome):
		return s.failed(outcome)
	case outcome != nil && outcome.Cause == causeGuest:
		return Phase{v1.PhaseStopping, ReasonGuestShutdown, "the guest has shut itself down", true}
	case outcome != nil:
		return Phase{
			v1.PhaseStopping, ReasonGuestEnded,
			"the VM has ended: " + cmp.Or(outcome.Message, outcome.Cause), true,
		}
	case s.Pod.Status.Phase == corev1.PodFailed:
		return Phase{
			v1.PhasePending, cmp.Or(s.Pod.Status.Reason, ReasonPodFailed),
			cmp.Or(Readable(s.Pod.Status.Message), "the pod has failed; a new one is created"), false,
		}
	case s.Pod.Spec.NodeName == "":
		return unscheduled(s.Pod)
	case !running(s.Pod):
		return notStarted(s.Pod)
	}
	return s.withRunner()
}

// unscheduled is for a pod that has no node.
func unscheduled(pod *corev1.Pod) Phase {
	c := condition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse {
		return Phase{v1.PhasePending, ReasonScheduling, "waiting for the scheduler to choose a node", true}
	}
	return Phase{v1.PhasePending, unscheduledReason(c), Readable(c.Message), false}
}

// notStarted is for a pod whose container is not running on its node.
func notStarted(pod *corev1.Pod) Phase {
	w := container(pod).State.Waiting
	switch {
	case nodeSilent(pod):
		return Phase{v1.PhasePending, ReasonNodeLost, silence(pod), false}
	case !AcknowledgeBy(pod).IsZero():
		return Phase{v1.PhaseStarting, ReasonPodStarting, fmt.Sprintf("node %s (spec.nodeName) has not acknowledged "+
			"the pod yet; a node that does not exist never does (kubectl get node %[1]s)", pod.Spec.NodeName), false}
	case w == nil, beingCreated(w):
		return starting()
	case w.Reason == "CrashLoopBackOff":
		return Phase{v1.PhaseStarting, ReasonRestarting, Readable(w.Message), false}
	case imageMissing(w):
		return Phase{v1.PhasePending, ReasonImagePull, Readable(w.Reason + ": " + w.Message), false}
	}
	return Phase{v1.PhasePending, ReasonContainer, Readable(w.Reason + ": " + w.Message), false}
}

// withRunner is for a VM whose runner is running.
func (s Situation) withRunner() Phase {
	runner := reported(s.VM, s.Pod)
	switch {
	case nodeSilent(s.Pod):
		return Phase{v1.PhaseRunning, ReasonNodeLost, silence(s.Pod), false}
	case runner == nil:
		return starting()
	}
	if m := s.VM.Status.Migration; m.Active() && (runner.State == stateRunning || runner.State == stateBooting ||
		runner.State == stateBooted) {
		return Phase{v1.PhaseMigrating, string(m.Stage), m.Message, false}
	}
	switch runner.State {
	case stateRunning:
		return Phase{v1.PhaseRunning, ReasonNoGuestAgent, runner.Message, false}
	case stateBooting, stateBooted:
		return Phase{v1.PhaseRunning, "", "", false}
	case stateTerminating, stateStopped:
		return Phase{v1.PhaseStopping, ReasonGuestEnded, "the machine is being stopped", false}
	}
	return starting()
}

// starting is the same for all that happens in the pod before the guest runs: the runner
// reports the details.
func starting() Phase {
	return Phase{v1.PhaseStarting, ReasonPodStarting, "the pod is starting", false}
}

func silence(pod *corev1.Pod) string {
	return fmt.Sprintf("node %s no longer reports, so it is not known whether the guest is running; %s",
		pod.Spec.NodeName, onceOff(pod))
}

// onceOff says what only a person who has checked the node can do: otherwise two QEMUs
// could use the same disks.
func onceOff(pod *corev1.Pod) string {
	return fmt.Sprintf("once the node is certainly off, give it the taint %s, or force the pod's deletion (kubectl delete pod %s --force)",
		corev1.TaintNodeOutOfService, pod.Name)
}
