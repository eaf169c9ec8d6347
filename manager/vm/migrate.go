package vm

import (
	"context"
	"errors"

	"vmop/manager/apply"
	"vmop/manager/decide"
	"vmop/manager/migration"
	"vmop/manager/objects"
	"vmop/manager/operation"
)

// recall returns the ordinal of the VM's pod. If the VM's status says nothing of migrations, which may be because it is
// lost, the claims do.
func (c *reconciler) recall(s *decide.Snapshot) (int32, error) {
	if s.VM.Status.Migration != nil || s.VM.Status.PodOrdinal != 0 {
		return s.VM.Status.PodOrdinal, nil
	}
	claims, _, err := c.claims(objects.DataClaimNames(s.VM))
	return objects.OrdinalByClaims(s.VM, claims), err
}

// migrate does what there is to do for a move of the VM's guest to another pod, and reports whether the VM's status
// was to be written: then the VM is reconciled again.
func (c *reconciler) migrate(ctx context.Context, s *decide.Snapshot, round *apply.Round) (
	written bool, did decide.Report,
) {
	ordinal, err := c.recall(s)
	switch {
	case err != nil:
		did.Err = err
		return false, did
	case ordinal != s.VM.Status.PodOrdinal:
		written, did.Err = round.Migration(ctx, nil, ordinal)
		return written, did
	}
	if did.Err = round.MarkGuest(ctx); did.Err != nil {
		return false, did
	}
	full := c.calls.Admit(s.VM, s.Pod)
	all, err := c.store.Operations(s.VM.Name)
	if err != nil {
		did.Err = err
		return false, did
	}
	moving, active := operation.Moving(all), s.VM.Status.Migration.Active()
	if s.VM.Status.Arriving != nil && s.Other == nil && !active {
		did.Err = round.ForgetArrival(ctx)
	}
	if moving == nil && !active {
		return false, did
	}
	name := s.VM.Name
	p := migration.Decide(migration.Situation{Snapshot: s, Operation: moving, Call: c.calls.Of(name), Full: full})
	did.RetryAt(p.Again)
	if p.Cancel {
		c.calls.Cancel(name)
	}
	if p.Record != nil {
		if written, err := round.Migration(ctx, p.Record, p.Ordinal); !written || err != nil {
			did.Err = errors.Join(did.Err, err)
			return err == nil, did
		}
	}
	if p.Forget {
		c.calls.Forget(name)
	}
	switch {
	case p.Begin:
		c.calls.Begin(ctx, s.VM, s.Pod, s.Other)
	case p.Query:
		c.calls.Query(ctx, s.VM, s.Pod)
	}
	return p.Record != nil, did
}
