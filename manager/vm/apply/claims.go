package apply

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// problemRetry is the delay before an unusable claim is checked again: its change may go unnoticed.
const problemRetry = 2 * time.Minute

// sourceRetry is the delay before the source snapshot of a claim is looked up again.
const sourceRetry = 5 * time.Second

// Claims creates missing claims, grows claims that are too small, and reports deleted claims while the VM
// needs them. frozen means that no pod may start with the claims in their current state.
func (r *Round) Claims(ctx context.Context, claims []objects.Claim) (frozen bool, did decide.Report) {
	if err := r.markClaims(ctx, claims); err != nil {
		did.Stop(decide.Refused(err), err)
		return true, did
	}
	var first decide.Obstacle
	for i := range claims {
		unusable, o, err := r.ensureClaim(ctx, &claims[i], &did)
		frozen = frozen || unusable
		if err == nil && o == nil {
			_, err = r.recordClaim(ctx, &claims[i])
			o = decide.Refused(err)
		}
		if err != nil {
			did.Stop(o, err)
			return frozen, did
		}
		if first == nil {
			first = o
		} else {
			did.Record(o)
		}
	}
	did.Stop(first, nil)
	return frozen, did
}

// ensureClaim creates or updates a single claim, and reports whether the claim prevents the start of a pod.
func (r *Round) ensureClaim(ctx context.Context, claim *objects.Claim, did *decide.Report) (
	unusable bool, o decide.Obstacle, err error,
) {
	if p := claim.Problem; p != nil && p.Fatal {
		did.RetryAt(r.Now.Add(problemRetry))
		return true, decide.Stalled{Reason: decide.ReasonClaim, Message: p.String()}, nil
	}
	have, exists := r.Snapshot.Claims[claim.Name]
	if exists {
		r.memory.written.forgetWrite(writtenClaim(claim))
	}
	switch {
	case exists && have.DeletionTimestamp != nil:
		return false, r.claimTerminating(ctx, claim, have.UID), nil
	case claim.Apply != nil && claim.Waits != nil:
		again := r.Now.Add(sourceRetry)
		did.RetryAt(again)
		return true, decide.Waiting{Reason: claim.Waits.Reason, Message: claim.Waits.Message, Until: again}, nil
	case claim.Apply != nil:
		switch lost, err := r.isMounted(ctx, claim); {
		case err != nil:
			return false, nil, err
		case lost:
			return false, r.claimLost(ctx, claim), nil
		}
		o, err = r.createClaim(ctx, claim)
		return false, o, err
	case claim.Stale:
		if err := r.changeClaim(ctx, claim, have.ResourceVersion, did); err != nil {
			return false, nil, err
		}
	}
	if p := claim.Problem; p != nil {
		did.Problem(decide.ReasonClaim, p.String())
	}
	o = keptObstacle(claim, did)
	return o != nil, o, nil
}

// keptObstacle reports which changes a claim can't follow, and returns the change that prevents a start, if any.
func keptObstacle(claim *objects.Claim, did *decide.Report) (o decide.Obstacle) {
	for _, p := range claim.Kept {
		if p.Fatal {
			o = decide.Stalled{Reason: decide.ReasonClaim, Message: p.String()}
		} else {
			did.Problem(decide.ReasonClaim, p.String())
		}
	}
	return o
}

func (r *Round) createClaim(ctx context.Context, claim *objects.Claim) (decide.Obstacle, error) {
	what, purpose := writtenClaim(claim), decide.Purpose(claim)
	hash := claim.Apply.Annotations[objects.AnnotationApplied]
	if r.isCurrent(what, hash, nil) {
		return nil, nil
	}
	object := &corev1.PersistentVolumeClaim{}
	if token := r.memory.tokens[claim.Name]; token != "" {
		claim.Apply.WithAnnotations(map[string]string{objects.AnnotationToken: token})
	}
	// Claim names can coincide, so another VM may just have created this claim.
	switch err := r.createObject(ctx, claim.Apply, object); {
	case apierrors.IsAlreadyExists(err):
		message := fmt.Sprintf("%s: the claim %s already exists, and is checked in a moment", purpose, claim.Name)
		return decide.Waiting{Reason: decide.ReasonOldObject, Message: message, Until: r.Now.Add(time.Second)}, nil
	case err != nil:
		return decide.RefusedFor(purpose, err), fmt.Errorf("create %s for %s: %w", what, purpose, err)
	}
	r.memory.written.setWrite(what, written{hash: hash, version: objects.VersionOf(object), at: r.Now})
	r.memory.createdClaim(claim, object.UID)
	if r.VM.Status.UUID != "" { // the VM has run before
		r.recordEvent(ctx, decide.ClaimMade(claim, object.UID))
	}
	return nil, nil
}

// writtenClaim returns the key of a claim in [writes].
func writtenClaim(claim *objects.Claim) string { return objects.KindClaim.String() + " " + claim.Name }

// markClaims marks claims with untrusted files, before a pod is created that could leave such files there.
func (r *Round) markClaims(ctx context.Context, claims []objects.Claim) error {
	for i := range claims {
		claim := &claims[i]
		if claim.Tainted() {
			if done, err := r.recordClaim(ctx, claim); err != nil || !done {
				return cmp.Or(err, fmt.Errorf("mark the record of claim %s: it is being replaced", claim.Name))
			}
		}
		patch, err := claim.Mark()
		if err != nil {
			return err
		}
		if patch == nil {
			continue
		}
		if _, err := r.patchObject(ctx, objects.KindClaim, claim.Name, types.MergePatchType, patch); err != nil {
			return fmt.Errorf("mark PersistentVolumeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// createdClaim stores a claim's UID until the VM's status contains it.
func (m *Memory) createdClaim(claim *objects.Claim, uid types.UID) {
	claim.UID = uid
	if m.made == nil {
		m.made = map[string]types.UID{}
	}
	m.made[claim.Name] = uid
	delete(m.tokens, claim.Name)
}

// AnnounceClaims writes into the VM's status which claims are about to be created, if necessary, and reports whether
// it did. If this process is killed after it has created the claims, the next process recognizes them.
func (r *Round) AnnounceClaims(ctx context.Context, claims []objects.Claim) (bool, error) {
	if onNode(r.Pod) && !r.VM.Status.Migration.Active() {
		return false, nil // lost claims are not replaced
	}
	volumes, tokens := objects.Announce(r.VM, r.Settings, claims, r.memory.tokens, rand.Text)
	if tokens == nil {
		return false, nil
	}
	version, err := r.patchStatus(ctx, map[string]any{"volumes": volumes})
	if err != nil {
		return false, fmt.Errorf("write into the status of VM %s which claims are created: %w", r.VM.Name, err)
	}
	if version != 0 {
		maps.Copy(tokens, r.memory.tokens)
		r.memory.tokens = tokens
	}
	return true, nil
}
