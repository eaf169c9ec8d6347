package vm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// A refusal is the API server's word that a claim stays as it is.
type refusal struct {
	hash    string // of what was asked for
	version string // of the claim
	problem string
	kept    []objects.Problem // which no note at the claim tells
	at      time.Time
}

// refusalLasts is how long a refusal is believed if neither the claim nor what is
// asked for changes: the claim's storage class may.
const refusalLasts = 10 * time.Minute

// growClaim brings a claim that exists near to what the VM asks for. What the API
// server refuses is told, and no reason not to go on with the volume as it is.
func (c *reconciler) growClaim(ctx context.Context, v *visit, claim *objects.Claim, version string) error {
	hash := claim.Wanted()
	said, known := v.memory.refusals[claim.Name]
	if !known || said.hash != hash || said.version != version || !v.now.Before(said.at.Add(refusalLasts)) {
		if !c.mayWrite(v) {
			return nil
		}
		refused, err := c.changeClaim(ctx, v, claim)
		if err != nil {
			return err
		}
		said = refusal{hash, version, refused, claim.Kept, v.now}
		v.memory.refuse(claim.Name, said)
	}
	if said.problem != "" {
		claim.Kept = said.kept
		v.problems = append(v.problems, problem{reasonClaim, said.problem})
		v.lookAgain(said.at.Add(refusalLasts))
	}
	return nil
}

// refuse remembers a refusal, or that there is none.
func (m *memory) refuse(claim string, said refusal) {
	delete(m.refusals, claim)
	if said.problem == "" {
		return
	}
	if m.refusals == nil {
		m.refusals = map[string]refusal{}
	}
	m.refusals[claim] = said
}

// changeClaim writes what can change in a claim, and returns what the API server
// has against it.
func (c *reconciler) changeClaim(ctx context.Context, v *visit, claim *objects.Claim) (string, error) {
	key := types.NamespacedName{Namespace: v.vm.Namespace, Name: claim.Name}
	var have corev1.PersistentVolumeClaim
	if err := c.live.Get(ctx, key, &have); err != nil {
		return "", fmt.Errorf("read PersistentVolumeClaim %s: %w", claim.Name, err)
	}
	patch, err := claim.Change(&have)
	if err != nil {
		return "", err
	}
	changed := have.DeepCopy()
	err = c.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch), managerWriter)
	if err != nil && refused(err) == nil {
		return "", fmt.Errorf("change PersistentVolumeClaim %s for %s: %w", claim.Name, purpose(claim), err)
	}
	for _, p := range claim.Kept {
		c.event(ctx, v, claimNotChanged(p.String(), have.UID))
	}
	if err != nil {
		problem := claim.Refused(&have, readable(err.Error()))
		c.event(ctx, v, claimNotChanged(problem, have.UID))
		return problem, nil
	}
	before, after := have.Spec.Resources.Requests.Storage(), changed.Spec.Resources.Requests.Storage()
	if after.Cmp(*before) > 0 {
		c.event(ctx, v, claimGrown(claim.Name, have.UID, before.String(), after.String()))
	}
	return "", nil
}
