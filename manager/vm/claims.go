package vm

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// makeClaims makes the claims of the VM's disks that are missing, and lets those
// grow that shall be larger.
func (c *reconciler) makeClaims(ctx context.Context, v *visit) (outcome, error) {
	claims, err := objects.Claims(v.vm, v.settings, v.existing)
	if err != nil {
		return stalled{reasonRefused, readable(err.Error())}, nil
	}
	v.claims = claims
	for i := range claims {
		claim := &claims[i]
		if claim.Apply != nil {
			if o, err := c.makeClaim(ctx, v, claim); err != nil {
				return o, err
			}
		}
		if claim.Stale {
			if err := c.growClaim(ctx, v, claim); err != nil {
				return refused(err), err
			}
		}
		switch p := claim.Problem; {
		case p != nil && p.Fatal:
			return stalled{reasonClaim, p.Path + ": " + p.Message}, nil
		case p != nil:
			v.problems = append(v.problems, problem{reasonClaim, p.Path + ": " + p.Message})
		}
	}
	return nil, nil
}

func (c *reconciler) makeClaim(ctx context.Context, v *visit, claim *objects.Claim) (outcome, error) {
	what := claimKind.String() + " " + claim.Name
	hash := claim.Apply.Annotations[objects.AnnotationApplied]
	if v.memory.current(what, hash, nil, v.now) {
		v.lookForUnseen(nil)
		return nil, nil
	}
	text, err := json.Marshal(claim.Apply)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", what, err)
	}
	object := metadataOf(claimKind)
	object.Name, object.Namespace = claim.Name, v.vm.Namespace
	if err := c.client.Patch(ctx, object, client.RawPatch(types.ApplyPatchType, text), managerWriter, client.ForceOwnership); err != nil {
		return refused(err), fmt.Errorf("apply %s for %s: %w", what, orElse(claim.Path, "the runner's data"), err)
	}
	v.memory.written[what] = written{hash: hash, version: versionOf(object), at: v.now}
	return nil, nil
}

// growClaim brings a claim that exists near to what the VM asks for.
func (c *reconciler) growClaim(ctx context.Context, v *visit, claim *objects.Claim) error {
	key := types.NamespacedName{Namespace: v.vm.Namespace, Name: claim.Name}
	var have corev1.PersistentVolumeClaim
	if err := c.live.Get(ctx, key, &have); err != nil {
		return fmt.Errorf("read PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	before := have.Spec.Resources.Requests.Storage().DeepCopy()
	patch, err := claim.Change(&have)
	if err != nil {
		return err
	}
	if err := c.client.Patch(ctx, &have, client.RawPatch(types.MergePatchType, patch), managerWriter); err != nil {
		return fmt.Errorf("change PersistentVolumeClaim %s for %s: %w", claim.Name, orElse(claim.Path, "the runner's data"), err)
	}
	if after := have.Spec.Resources.Requests.Storage(); after.Cmp(before) > 0 {
		c.event(ctx, v, claimGrown(claim.Name, have.UID, before.String(), after.String()))
	}
	return nil
}
