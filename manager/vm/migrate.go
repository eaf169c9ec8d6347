package vm

import (
	"context"
	"errors"

	v1 "vmop/api/v1"
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
	is := migration.Situation{Snapshot: s, Operation: moving, Full: full}
	if !active {
		changed, err := c.clear(ctx, s, round, moving)
		did.Err, is.Left = errors.Join(did.Err, err), err != nil
		if changed {
			return true, did
		}
	}
	if moving == nil && !active {
		return false, did
	}
	is.Call = c.calls.Of(s.VM.Name)
	if err := c.copies(ctx, &is); err != nil {
		did.Err = errors.Join(did.Err, err)
		if !active { // none begins without them, and one that has begun can still end
			return false, did
		}
	}
	written, more := c.advance(ctx, s, migration.Decide(is), round)
	did.Append(more)
	return written, did
}

// advance does what was decided about a move, and reports whether the VM was written.
func (c *reconciler) advance(ctx context.Context, s *decide.Snapshot, p migration.Plan, round *apply.Round) (
	written bool, did decide.Report,
) {
	name := s.VM.Name
	did.RetryAt(p.Again)
	if p.Cancel {
		c.calls.Cancel(name)
	}
	if p.Record != nil {
		if held, err := c.prepare(ctx, s, round, p); held || err != nil {
			did.Err = err
			return held, did
		}
		if written, err := round.Migration(ctx, p.Record, p.Ordinal); !written || err != nil {
			did.Err = err
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

// copies adds what is known of the disks that are copied while the guest moves, and makes the claims of the copies.
func (c *reconciler) copies(ctx context.Context, is *migration.Situation) (err error) {
	m, o := is.VM.Status.Migration, is.Operation
	switch {
	case !m.Active():
		if migration.Copies(is.VM, o) {
			is.Disks, is.NoCopies, err = c.disks.ToCopy(is.VM, o.UID)
		}
		return err
	case len(m.Disks) == 0:
		return nil
	}
	is.Switched = c.disks.Switched(is.VM)
	if m.Stage == v1.MigrationPreparing && o != nil {
		is.NoCopies, err = c.disks.MakeCopies(ctx, is.VM)
	}
	return err
}

// prepare does what comes before the record of a plan is written, and reports whether the VM was changed: before disks
// are copied, it can't go without that it is known which of their volumes has what the guest has written last.
func (c *reconciler) prepare(ctx context.Context, s *decide.Snapshot, round *apply.Round, p migration.Plan) (
	changed bool, err error,
) {
	switch {
	case p.Switch:
		return false, c.disks.Switch(ctx, s.VM)
	case len(p.Record.Disks) > 0 && p.Record.Stage == v1.MigrationPreparing:
		return round.Hold(ctx, true)
	}
	return false, nil
}

// clear clears away what the last migration of a VM has left, which is over, and reports whether the VM was changed.
// next is the operation that asks for another one; nil: none does.
func (c *reconciler) clear(ctx context.Context, s *decide.Snapshot, round *apply.Round,
	next *v1.VirtualMachineOperation,
) (changed bool, err error) {
	m := s.VM.Status.Migration
	if m != nil && len(m.Disks) > 0 {
		if err := c.disks.Abandon(ctx, m); err != nil {
			return false, err
		}
	}
	if migration.Copies(s.VM, next) && (m == nil || m.OperationUID != next.UID) {
		return false, nil
	}
	return round.Hold(ctx, false)
}
