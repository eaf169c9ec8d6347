package apply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// refusal records that the API server rejects a change of a claim.
type refusal struct {
	hash    string // hash of the requested change
	version string // version of the claim
	problem string
	kept    []objects.Problem // unchanged fields, missing in the claim's annotations
	at      time.Time
}

// refusalLasts is how long a refusal is assumed to hold while claim and request stay the same. The claim's
// storage class may change in this time.
const refusalLasts = 10 * time.Minute

// changeClaim changes an existing claim as far as possible to match the VM's definition. It reports changes that the
// API server rejects, and the volume is used as it is.
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

// setRefusal stores a refusal, or deletes it if the API server accepted the change.
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

// patchClaim writes the mutable fields of a claim. It returns the reason if the API server rejects the change, or ""
// if it accepts it.
func (r *Round) patchClaim(ctx context.Context, claim *objects.Claim) (string, error) {
	var have corev1.PersistentVolumeClaim
	if err := r.w.live.Get(ctx, r.namespacedName(claim.Name), &have); err != nil {
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
		r.recordEvent(ctx, decide.ClaimNotChanged(p.String(), have.UID))
	}
	if err != nil {
		problem := claim.Refused(&have, decide.Readable(err.Error()))
		r.recordEvent(ctx, decide.ClaimNotChanged(problem, have.UID))
		return problem, nil
	}
	before, after := have.Spec.Resources.Requests.Storage(), changed.Spec.Resources.Requests.Storage()
	if after.Cmp(*before) > 0 {
		r.recordEvent(ctx, decide.ClaimGrown(claim.Name, have.UID, before.String(), after.String()))
	}
	return "", nil
}
