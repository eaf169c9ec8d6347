package vm

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/objects"
)

// makeClaims makes the claims of the VM's disks that are missing, lets those grow
// that shall be larger, and tells of those that somebody has deleted.
func (c *reconciler) makeClaims(ctx context.Context, v *visit) (outcome, error) {
	claims, err := objects.Claims(v.vm, v.settings, v.existing)
	if err != nil {
		return stalled{reasonRefused, readable(err.Error())}, nil
	}
	v.claims = claims
	if err := c.markClaims(ctx, v); err != nil {
		v.frozen = true
		return refused(err), err
	}
	var held outcome
	for i := range claims {
		o, err := c.tendClaim(ctx, v, &claims[i])
		if err != nil {
			return o, err
		}
		switch {
		case o == nil:
		case held == nil:
			held = o
		default:
			v.note(o)
		}
	}
	return held, nil
}

// tendClaim does what there is to do for one of them.
func (c *reconciler) tendClaim(ctx context.Context, v *visit, claim *objects.Claim) (outcome, error) {
	if p := claim.Problem; p != nil && p.Fatal {
		v.frozen = true
		v.lookAgain(v.now.Add(lastRetry)) // what becomes of it, nobody tells
		return stalled{reasonClaim, p.String()}, nil
	}
	have, exists := v.existing[claim.Name]
	if exists {
		v.memory.written.forget(claimKind.String() + " " + claim.Name) // it is in the cache
	}
	switch {
	case exists && have.DeletionTimestamp != nil:
		return c.claimGoes(ctx, v, claim, have.UID), nil
	case claim.Apply != nil:
		switch lost, err := c.mounted(ctx, v, claim); {
		case err != nil:
			return nil, err
		case lost:
			return c.claimLost(ctx, v, claim), nil
		}
		return c.makeClaim(ctx, v, claim)
	case claim.Stale:
		if err := c.growClaim(ctx, v, claim, have.ResourceVersion); err != nil {
			return nil, err
		}
	}
	if p := claim.Problem; p != nil {
		v.problems = append(v.problems, problem{reasonClaim, p.String()})
	}
	return v.kept(claim), nil
}

// kept tells what a claim keeps. Without what a pod needs the VM is not started.
func (v *visit) kept(claim *objects.Claim) outcome {
	var held outcome
	for _, p := range claim.Kept {
		said := problem{reasonClaim, p.String()}
		if p.Fatal {
			v.frozen, held = true, stalled(said)
		} else {
			v.problems = append(v.problems, said)
		}
	}
	return held
}

func (c *reconciler) makeClaim(ctx context.Context, v *visit, claim *objects.Claim) (outcome, error) {
	what := claimKind.String() + " " + claim.Name
	hash := claim.Apply.Annotations[objects.AnnotationApplied]
	if v.current(what, hash, nil) {
		return nil, nil
	}
	object := &corev1.PersistentVolumeClaim{}
	// Another VM may just have made it, as names of claims can be the same.
	switch err := c.create(ctx, claim.Apply, object); {
	case apierrors.IsAlreadyExists(err):
		return waiting{reasonOldObject, fmt.Sprintf("%s: the claim %s is there already, and is looked at in a moment", purpose(claim), claim.Name), v.now.Add(time.Second)}, nil
	case err != nil:
		return refusedFrom(purpose(claim), err), fmt.Errorf("make %s for %s: %w", what, purpose(claim), err)
	}
	v.memory.written.note(what, written{hash: hash, version: versionOf(object), at: v.now})
	if v.vm.Status.UUID != "" { // it has run before
		c.event(ctx, v, claimMade(claim, object.UID))
	}
	return nil, nil
}

// markClaims notes at claims what nobody vouches for, before a pod is made that may
// leave it there.
func (c *reconciler) markClaims(ctx context.Context, v *visit) error {
	for i := range v.claims {
		claim := &v.claims[i]
		patch, err := claim.Mark()
		if err != nil {
			return err
		}
		if patch == nil {
			continue
		}
		if _, err := c.patch(ctx, claimKind, claim.Name, types.MergePatchType, patch); err != nil {
			return fmt.Errorf("mark PersistentVolumeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// purpose says what a claim is for.
func purpose(claim *objects.Claim) string { return cmp.Or(claim.Path, "the runner's data") }

// isData tells whether a claim holds the machine's uuid, NVRAM and TPM.
func isData(claim *objects.Claim) bool { return claim.Path == "" }
