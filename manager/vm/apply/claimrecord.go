package apply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/vm/objects"
)

// recordRetry is the delay before a claim's record is written again if the garbage collector is about to delete it.
const recordRetry = 5 * time.Second

// recordClaim writes the record of a claim, which identifies the claim after the VM has been deleted. It reports
// whether the record is up to date.
func (r *Round) recordClaim(ctx context.Context, claim *objects.Claim) (done bool, err error) {
	record, err := claim.Record(r.VM, r.Settings)
	if err != nil {
		return false, err
	}
	what := "record " + claim.Name
	if record == nil {
		r.memory.written.forgetWrite(what)
		return true, nil
	}
	hash := string(record.Claim) + " " + record.Untrusted
	if r.isCurrent(what, hash, nil) {
		return true, nil
	}
	if record.InTheWay || record.Untrusted == "" && !r.mayWrite() {
		r.retryAt(r.Now.Add(recordRetry))
		return false, nil
	}
	object := &corev1.ConfigMap{}
	if record.Create == nil {
		_, err = r.patchObject(ctx, objects.KindConfigMap, record.Name, types.MergePatchType, record.Mark)
	} else {
		err = r.createObject(ctx, record.Create, object)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err): // the snapshot is out of date
		r.retryAt(r.Now.Add(recordRetry))
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write ConfigMap %s, the record of claim %s: %w", record.Name, claim.Name, err)
	}
	r.memory.written.setWrite(what, written{hash: hash, at: r.Now})
	return true, nil
}
