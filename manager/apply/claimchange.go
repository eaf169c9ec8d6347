package apply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/decide"
	"vmop/manager/objects"
)

// A refusal is that the API server leaves a claim as it is.
type refusal struct {
	hash    string // of what was asked for
	version string // of the claim
	problem string
	kept    []objects.Problem // which no annotation of the claim has
	at      time.Time
}

// refusalLasts is how long a refusal is believed if neither the claim nor what is asked
// for changes: the claim's storage class may.
const refusalLasts = 10 * time.Minute

// changeClaim brings a claim that exists as near as possible to what the VM asks for. What
// the API server refuses is reported, and the volume is used as it is.
func (r *Round) changeClaim(ctx context.Context, claim *objects.Claim, version string, did *decide.Report) error {
	hash := claim.Wanted()
	last, known := r.memory.refusals[claim.Name]
	if !known || last.hash != hash || last.version != version || !r.Now.Before(last.at.Add(refusalLasts)) {
		if !r.mayWrite() {
			return nil
		}
		refused, err := r.patchClaim(ctx, claim)
		if err != nil {
			return err
		}
		last = refusal{hash, version, refused, claim.Kept, r.Now}
		r.memory.setRefusal(claim.Name, last)
	}
	if last.problem != "" {
		claim.Kept = last.kept
		did.Problem(decide.ReasonClaim, last.problem)
		did.RetryAt(last.at.Add(refusalLasts))
	}
	return nil
}

// setRefusal remembers a refusal, or that there is none.
func (m *Memory) setRefusal(claim string, last refusal) {
	delete(m.refusals, claim)
	if last.problem == "" {
		return
	}
	if m.refusals == nil {
		m.refusals = map[string]refusal{}
	}
	m.refusals[claim] = last
}

// patchClaim writes what can change in a claim, and returns what the API server has
// against it; "" if it has accepted it.
func (r *Round) patchClaim(ctx context.Context, claim *objects.Claim) (string, error) {
	var have corev1.PersistentVolumeClaim
	if err := r.w.live.Get(ctx, r.key(claim.Name), &have); err != nil {
		return "", fmt.Errorf("read PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	patch, err := claim.Change(&have)
	if err != nil {
		return "", err
	}
	changed := have.DeepCopy()
	err = r.w.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch), managerOwner)
	if err != nil && decide.Refused(err) == nil {
		return "", fmt.Errorf("change PersistentVolumeClaim %s for %s: %w", claim.Name, decide.Purpose(claim), err)
	}
	for _, p := range claim.Kept {
		r.event(ctx, decide.ClaimNotChanged(p.String(), have.UID))
	}
	if err != nil {
		problem := claim.Refused(&have, decide.Readable(err.Error()))
		r.event(ctx, decide.ClaimNotChanged(problem, have.UID))
		return problem, nil
	}
	before, after := have.Spec.Resources.Requests.Storage(), changed.Spec.Resources.Requests.Storage()
	if after.Cmp(*before) > 0 {
		r.event(ctx, decide.ClaimGrown(claim.Name, have.UID, before.String(), after.String()))
	}
	return "", nil
}
