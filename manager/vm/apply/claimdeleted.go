package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// claimTerminating handles a claim that is being deleted. The API server keeps the claim as long as a pod on a node
// uses it. No pod that would mount the claim is created.
func (r *Round) claimTerminating(ctx context.Context, claim *objects.Claim, uid types.UID) decide.Obstacle {
	name := decide.Purpose(claim) + ": the claim " + claim.Name
	if !onNode(r.Pod) {
		return decide.Waiting{Reason: decide.ReasonClaimDeleted, Message: fmt.Sprintf(
			"%s is being deleted: waiting until it is gone; then %s", name, replacementText(claim))}
	}
	message := fmt.Sprintf("%s is being deleted, which cannot be undone. The VM keeps it until its pod ends; "+
		"for the next start, %s. To keep the data, set the reclaim policy of its volume to Retain before that (kubectl patch pv)",
		name, replacementText(claim))
	r.recordEvent(ctx, decide.ClaimDeleted(message, uid))
	return decide.Waiting{Reason: decide.ReasonClaimDeleted, Message: message}
}

// claimLost handles a missing claim while the VM's pod uses its volume.
func (r *Round) claimLost(ctx context.Context, claim *objects.Claim) decide.Obstacle {
	message := fmt.Sprintf("%s: the claim %s is gone, and most likely its volume with it. "+
		"Data that the VM writes may already be lost; for the next start, %s",
		decide.Purpose(claim), claim.Name, replacementText(claim))
	r.recordEvent(ctx, decide.ClaimDeleted(message, r.Pod.UID))
	return decide.Waiting{Reason: decide.ReasonClaimDeleted, Message: message}
}

// replacementText describes the claim that replaces a lost claim.
func replacementText(claim *objects.Claim) string {
	if decide.HasMachineState(claim) {
		return "an empty claim is created, with a new machine uuid, firmware variables and TPM"
	}
	return "an empty claim is created"
}

// onNode reports whether a pod may have mounted its volumes.
func onNode(pod *corev1.Pod) bool { return pod != nil && pod.Spec.NodeName != "" }

// mounted contains the claims of a pod.
type mounted struct {
	pod    types.UID
	claims map[string]bool
}

// isMounted reports whether the VM's pod uses a missing claim. The snapshot lacks the volumes of pods, so a
// pod is read once if a claim is missing.
func (r *Round) isMounted(ctx context.Context, claim *objects.Claim) (bool, error) {
	if !onNode(r.Pod) {
		return false, nil
	}
	if _, created := r.memory.written.writeOf(writtenClaim(claim)); created {
		return false, nil // just created: it was added to the definition
	}
	if r.memory.mounted == nil || r.memory.mounted.pod != r.Pod.UID {
		var pod corev1.Pod
		err := r.w.live.Get(ctx, r.namespacedName(r.Pod.Name), &pod)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read pod %s: %w", r.Pod.Name, err)
		}
		has := &mounted{pod.UID, map[string]bool{}}
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				has.claims[volume.PersistentVolumeClaim.ClaimName] = true
			}
		}
		r.memory.mounted = has
	}
	return r.memory.mounted.pod == r.Pod.UID && r.memory.mounted.claims[claim.Name], nil
}
