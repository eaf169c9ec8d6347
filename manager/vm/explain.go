package vm

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// explain adds to a phase what the scheduler doesn't say: what asked for how much,
// and which claims it means.
func (c *reconciler) explain(ctx context.Context, v *visit, p *phase) error {
	if p.phase != v1.PhasePending || v.pod == nil || v.pod.Spec.NodeName != "" {
		return nil
	}
	var more string
	switch p.reason {
	case reasonUnschedulable:
		if strings.Contains(p.message, "Insufficient") {
			more = objects.Requests(v.vm, v.settings)
		}
	case reasonClaimPending:
		var err error
		if more, err = c.unbound(ctx, v); err != nil {
			return err
		}
	}
	if more != "" {
		p.message = strings.TrimRight(p.message, ".") + "; " + more
	}
	return nil
}

// unboundSince is how long claims are without a volume before it is asked which:
// those of a VM that is new are for a moment.
const unboundSince = 5 * time.Second

// unboundClaims are those that have no volume, in words, as long as no claim has
// changed.
type unboundClaims struct{ versions, text string }

// unbound says which of the VM's claims have no volume. The cache has only the
// metadata of claims, so that they are read, once in each version.
func (c *reconciler) unbound(ctx context.Context, v *visit) (string, error) {
	said := condition(v.pod, corev1.PodScheduled)
	if since := said.LastTransitionTime.Add(unboundSince); v.now.Before(since) {
		v.lookAgain(since)
		return "", nil
	}
	versions := string(v.pod.UID)
	for _, claim := range v.claims {
		versions += " " + v.existing[claim.Name].ResourceVersion
	}
	if known := v.memory.unbound; known != nil && known.versions == versions {
		return known.text, nil
	}
	var texts []string
	for i := range v.claims {
		claim := &v.claims[i]
		var have corev1.PersistentVolumeClaim
		err := c.live.Get(ctx, types.NamespacedName{Namespace: v.vm.Namespace, Name: claim.Name}, &have)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", fmt.Errorf("read PersistentVolumeClaim %s: %w", claim.Name, err)
		case have.Status.Phase != corev1.ClaimBound:
			texts = append(texts, claim.Unbound(&have))
		}
	}
	text := strings.Join(texts, "; ")
	if text != "" {
		text += " (kubectl describe pvc has its events)"
	}
	v.memory.unbound = &unboundClaims{versions, text}
	return text, nil
}
