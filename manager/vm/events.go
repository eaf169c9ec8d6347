package vm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// labelInitiator of an event says who made happen what happened.
const labelInitiator = v1.GroupName + "/initiator"

// Initiators.
const (
	byUser    = "user"    // by what the resource says, or by deleting the pod
	byGuest   = "guest"   // by what runs in the VM
	byManager = "manager" // by a rule
	byNode    = "node"    // or by the control plane in its place
	byRunner  = "runner"  // or by QEMU
)

// happening is what an event tells. The same one is told once, whoever tells it,
// and however often: its name is made of what happened.
type happening struct {
	reason, action, initiator, note string
	key                             string // tells it from others of the same reason
	warning                         bool
}

// event tells what happened. That it could not be told is no reason not to go on.
func (c *reconciler) event(ctx context.Context, v *visit, h happening) {
	name := eventName(v.vm, h)
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: v.vm.Namespace,
			Labels: map[string]string{objects.LabelInstance: v.vm.Name, labelInitiator: h.initiator},
		},
		EventTime:           metav1.NewMicroTime(v.now),
		ReportingController: v1.GroupName + "/vm-manager",
		ReportingInstance:   cmp.Or(c.opts.Instance, objects.ManagerName),
		Type:                corev1.EventTypeNormal,
		Reason:              h.reason, Action: h.action,
		Note: shorten(h.note, longestNote),
		Regarding: corev1.ObjectReference{
			APIVersion: v1.GroupVersion().String(), Kind: "VirtualMachine",
			Namespace: v.vm.Namespace, Name: v.vm.Name, UID: v.vm.UID, ResourceVersion: v.vm.ResourceVersion,
		},
	}
	if h.warning {
		event.Type = corev1.EventTypeWarning
	}
	if err := c.client.Create(ctx, event, managerWriter); err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Error(err, "event not written", "reason", h.reason, "note", event.Note)
	}
}

// longestNote is a little less than the API server allows, in bytes.
const longestNote = 1000

func eventName(vm *v1.VirtualMachine, h happening) string {
	sum := sha256.Sum256([]byte(string(vm.UID) + "/" + h.reason + "/" + h.key))
	return vm.Name + "." + hex.EncodeToString(sum[:8])
}

// happenings are what the change of the status to a phase tells.
func (v *visit) happenings(p phase) []happening {
	was := v.vm.Status
	var all []happening
	if p.phase != was.Phase {
		all = append(all, v.transition(p)...)
	}
	if f := v.failures; f != nil && f.Count > 0 && (was.Failures == nil || f.LastTime != was.Failures.LastTime) {
		reason, message := p.reason, p.message
		if p.phase != v1.PhaseFailed { // nobody has seen it fail, and it runs again
			reason, message = failure(f.Last)
		}
		all = append(all, happening{reason, "Start", v.culprit(), message, f.LastTime.UTC().Format(time.RFC3339), true})
	}
	if refused := v.accepted.status == metav1.ConditionFalse; refused {
		if have := meta.FindStatusCondition(was.Conditions, v1.ConditionVMTypeAccepted); have == nil || have.Message != v.accepted.message {
			all = append(all, happening{v.accepted.reason, "CheckType", byUser, v.accepted.message, fmt.Sprint(v.vm.Generation, v.accepted.message), true})
		}
	}
	if p.reason != was.Reason && (p.reason == reasonWaitingForOldPod || p.reason == reasonNodeLost) {
		all = append(all, happening{p.reason, "Start", byNode, p.message, podsOf(v.situation), true})
	}
	return all
}

// transition is that to another phase.
func (v *visit) transition(p phase) []happening {
	switch {
	case p.phase == v1.PhaseRunning:
		initiator := byUser
		if v.failures != nil && v.failures.Count > 0 {
			initiator = byManager
		}
		return []happening{{"Started", "Start", initiator, "the guest runs on node " + v.pod.Spec.NodeName, string(v.pod.UID), false}}
	case p.phase == v1.PhaseStopped && v.vm.Status.Runner != nil:
		uid := string(v.vm.Status.Runner.PodUID)
		if uid == v.vm.Annotations[annotationCarriedOut] {
			return []happening{{"Stopped", "Stop", byGuest, "the guest has shut itself down, and the VM is stopped with it (spec.guestShutdownStops)", uid, false}}
		}
		return []happening{{"Stopped", "Stop", byUser, "the VM has stopped, as spec.vm.state says" + howEnded(v.vm.Status.Runner), uid, false}}
	case p.reason == reasonPodDeleted:
		return []happening{{"Restarting", "Restart", v.deleter(), "pod " + v.pod.Name + " is being deleted; the VM goes on in a new one", string(v.pod.UID), false}}
	}
	return nil
}

// howEnded adds how the machine ended if it wasn't as it should.
func howEnded(said *v1.RunnerStatus) string {
	if said.Outcome == nil || said.Outcome.Cause == causeAsked {
		return ""
	}
	return ": " + said.Outcome.Cause
}

// deleter is who deletes the pod, as far as the pod tells.
func (v *visit) deleter() string {
	if c := condition(v.pod, corev1.DisruptionTarget); c != nil && c.Reason != "EvictionByEvictionAPI" {
		return byNode
	}
	return byUser
}

// culprit is who made the machine fail.
func (v *visit) culprit() string {
	if said := v.vm.Status.Runner; said != nil && said.Outcome != nil && said.Outcome.Cause == causePanic {
		return byGuest
	}
	if nodeMissed(v.failures.Last) {
		return byUser
	}
	return byRunner
}

// replaced is that the machine in a pod has ended, and another one follows.
func replaced(v *visit) happening {
	if stuck(v.pod) {
		return happening{"Restarting", "Restart", byUser, "pod " + v.pod.Name + " could not be started, and the definition has changed: another pod follows", string(v.pod.UID), false}
	}
	initiator := byRunner
	if o := ending(v.vm, v.pod); o != nil && o.ExitCode == 0 {
		initiator = byGuest
	}
	return happening{"Restarting", "Restart", initiator, "the machine has ended (" + v.decision.replace + "); it is started again in a new pod", string(v.pod.UID), false}
}

func statusRefused(generation int64, message string) happening {
	return happening{"StatusNotWritten", "WriteStatus", byManager, "the API server does not take the status of the VM, which is not told there: " + message, fmt.Sprint(generation), true}
}

func claimGrown(name string, uid types.UID, from, to string) happening {
	return happening{"ClaimGrown", "GrowClaim", byUser, fmt.Sprintf("PersistentVolumeClaim %s asks for %s instead of %s", name, to, from), string(uid) + to, false}
}

func claimNotChanged(problem string, uid types.UID) happening {
	return happening{"ClaimNotChanged", "ChangeClaim", byUser, problem, string(uid) + problem, true}
}

func claimDeleted(message string, uid types.UID) happening {
	return happening{reasonClaimDeleted, "DeleteClaim", byUser, message, string(uid), true}
}

// claimMade is that of a VM that has run before: its data are new, or were lost.
func claimMade(claim *objects.Claim, uid types.UID) happening {
	note := fmt.Sprintf("PersistentVolumeClaim %s is made for %s: it is empty", claim.Name, purpose(claim))
	if isData(claim) {
		note += ", as the one before is gone: the machine gets a new uuid, firmware variables and TPM"
	}
	return happening{"ClaimMade", "MakeClaim", byManager, note, string(uid), isData(claim)}
}

// podsOf tells situations apart by the pods there are.
func podsOf(s situation) string {
	if s.pod != nil {
		return string(s.pod.UID)
	}
	for _, stray := range s.strays {
		return string(stray.UID)
	}
	return ""
}
