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

	"vmop/manager/decide"
	"vmop/manager/objects"
)

// problemRetry is when a claim is checked again that can't be used: its change may go
// unnoticed.
const problemRetry = 2 * time.Minute

// sourceRetry is when it is looked again for the snapshot of which a claim is to be made.
const sourceRetry = 5 * time.Second

// Claims creates the claims that are missing, grows those that are to be larger, and
// reports those that are deleted while the VM needs them. frozen means that no pod must be started with
// the claims as they are.
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

// ensureClaim does what there is to do for one claim, and reports whether no pod must be
// started with it.
func (r *Round) ensureClaim(ctx context.Context, claim *objects.Claim, did *decide.Report) (
	unusable bool, o decide.Obstacle, err error,
) {
	if p := claim.Problem; p != nil && p.Fatal {
		did.RetryAt(r.Now.Add(problemRetry))
		return true, decide.Stalled{Reason: decide.ReasonClaim, Message: p.String()}, nil
	}
	have, exists := r.Snapshot.Claims[claim.Name]
	if exists {
		r.memory.written.forget(writtenClaim(claim))
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

// keptObstacle reports what a claim keeps, and returns what of it prevents a start.
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
	if r.current(what, hash, nil) {
		return nil, nil
	}
	object := &corev1.PersistentVolumeClaim{}
	if token := r.memory.tokens[claim.Name]; token != "" {
		claim.Apply.WithAnnotations(map[string]string{objects.AnnotationToken: token})
	}
	// Another VM may just have created it, as names of claims can be the same.
	switch err := r.create(ctx, claim.Apply, object); {
	case apierrors.IsAlreadyExists(err):
		message := fmt.Sprintf("%s: the claim %s already exists, and is checked in a moment", purpose, claim.Name)
		return decide.Waiting{Reason: decide.ReasonOldObject, Message: message, Until: r.Now.Add(time.Second)}, nil
	case err != nil:
		return decide.RefusedFor(purpose, err), fmt.Errorf("create %s for %s: %w", what, purpose, err)
	}
	r.memory.written.set(what, written{hash: hash, version: objects.VersionOf(object), at: r.Now})
	r.memory.createdClaim(claim, object.UID)
	if r.VM.Status.UUID != "" { // it has run before
		r.event(ctx, decide.ClaimMade(claim, object.UID))
	}
	return nil, nil
}

// writtenClaim is the key of a claim among what was written.
func writtenClaim(claim *objects.Claim) string { return objects.KindClaim.String() + " " + claim.Name }

// markClaims marks claims whose files are not trusted, before a pod is created that could
// leave such files there.
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
		if _, err := r.patch(ctx, objects.KindClaim, claim.Name, types.MergePatchType, patch); err != nil {
			return fmt.Errorf("mark PersistentVolumeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// createdClaim remembers a claim until the VM's status has it.
func (m *Memory) createdClaim(claim *objects.Claim, uid types.UID) {
	claim.UID = uid
	if m.made == nil {
		m.made = map[string]types.UID{}
	}
	m.made[claim.Name] = uid
	delete(m.tokens, claim.Name)
}

// AnnounceClaims writes into the VM's status which claims are about to be created, if that is
// needed, and reports whether it did: should this process be killed after it has created them,
// the next one knows them.
func (r *Round) AnnounceClaims(ctx context.Context, claims []objects.Claim) (bool, error) {
	if onNode(r.Pod) && !r.VM.Status.Migration.Active() {
		return false, nil // what it has lost is not created
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
