package vm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/objects"
)

// claimGoes is for a claim that is being deleted. The API server keeps it as long
// as a pod on a node has it; no pod is made that would mount it.
func (c *reconciler) claimGoes(ctx context.Context, v *visit, claim *objects.Claim, uid types.UID) outcome {
	name := purpose(claim) + ": the claim " + claim.Name
	if !onNode(v.pod) {
		return waiting{reason: reasonClaimDeleted, message: fmt.Sprintf("%s is being deleted: waiting until it is gone; %s then", name, successor(claim))}
	}
	message := fmt.Sprintf("%s is being deleted, which cannot be taken back. The VM has it until its pod ends; %s for the next start. "+
		"To keep what is on the volume, set its reclaim policy to Retain before (kubectl patch pv)", name, successor(claim))
	c.event(ctx, v, claimDeleted(message, uid))
	return waiting{reason: reasonClaimDeleted, message: message}
}

// claimLost is for a claim that is gone, though the VM's pod has its volume.
func (c *reconciler) claimLost(ctx context.Context, v *visit, claim *objects.Claim) outcome {
	message := fmt.Sprintf("%s: the claim %s is gone, and with it, most likely, its volume. What the VM writes may be lost already; %s for the next start",
		purpose(claim), claim.Name, successor(claim))
	c.event(ctx, v, claimDeleted(message, v.pod.UID))
	return waiting{reason: reasonClaimDeleted, message: message}
}

// successor says what is made in the place of a claim.
func successor(claim *objects.Claim) string {
	if isData(claim) {
		return "an empty one is made, and with it a new machine uuid, firmware variables and TPM,"
	}
	return "an empty one is made"
}

// onNode tells whether a pod may have its volumes.
func onNode(pod *corev1.Pod) bool { return pod != nil && pod.Spec.NodeName != "" }

// mounts are the claims of a pod.
type mounts struct {
	pod    types.UID
	claims map[string]bool
}

// mounted tells whether the VM's pod has a claim that is missing. The cache doesn't
// have the volumes of pods, so that a pod is read once if a claim is missing.
func (c *reconciler) mounted(ctx context.Context, v *visit, claim *objects.Claim) (bool, error) {
	if !onNode(v.pod) {
		return false, nil
	}
	if _, made := v.memory.written.of(claimKind.String() + " " + claim.Name); made {
		return false, nil // a moment ago: it was added to the definition
	}
	if v.memory.mounts == nil || v.memory.mounts.pod != v.pod.UID {
		var pod corev1.Pod
		err := c.live.Get(ctx, types.NamespacedName{Namespace: v.pod.Namespace, Name: v.pod.Name}, &pod)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read pod %s: %w", v.pod.Name, err)
		}
		has := &mounts{pod.UID, map[string]bool{}}
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				has.claims[volume.PersistentVolumeClaim.ClaimName] = true
			}
		}
		v.memory.mounts = has
	}
	return v.memory.mounts.pod == v.pod.UID && v.memory.mounts.claims[claim.Name], nil
}
