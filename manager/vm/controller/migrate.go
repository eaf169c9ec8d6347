package controller

import (
	"context"
	"errors"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/manager/operation/migration"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// recallOrdinal returns the ordinal of the VM's pod. If the VM's status contains no migration, perhaps because it was
// lost, the claims determine the ordinal.
func (c *reconciler) recallOrdinal(s *decide.Snapshot) (int32, error) {
	if s.VM.Status.Migration != nil || s.VM.Status.PodOrdinal != 0 {
		return s.VM.Status.PodOrdinal, nil
	}
	claims, _, err := c.existingClaims(objects.DataClaimNames(s.VM))
	return objects.OrdinalByClaims(s.VM, claims), err
}

// followMigration advances the migration of the VM's guest to another pod. It reports whether it wrote the VM's
// status, so that the VM is reconciled again.
func (c *reconciler) followMigration(ctx context.Context, s *decide.Snapshot, round *apply.Round) (
	written bool, did decide.Report,
) {
	ordinal, err := c.recallOrdinal(s)
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
		changed, err := c.clearMigration(ctx, s, round, moving)
		did.Err, is.Left = errors.Join(did.Err, err), err != nil
		if changed {
			return true, did
		}
	}
	if moving == nil && !active {
		return false, did
	}
	is.Call = c.calls.Of(s.VM.Name)
	if err := c.observeCopies(ctx, &is); err != nil {
		did.Err = errors.Join(did.Err, err)
		if !active { // a migration starts only with its copies, but can end without
			return false, did
		}
	}
	written, more := c.carryOutMigration(ctx, s, migration.Decide(is), round)
	did.Append(more)
	return written, did
}

// carryOutMigration carries out the plan for a migration, and reports whether it wrote the VM.
func (c *reconciler) carryOutMigration(ctx context.Context, s *decide.Snapshot, p migration.Plan, round *apply.Round) (
	written bool, did decide.Report,
) {
	name := s.VM.Name
	did.RetryAt(p.Again)
	if p.Cancel {
		c.calls.Cancel(name)
	}
	if p.Record != nil {
		if held, err := c.prepareMigration(ctx, s, round, p); held || err != nil {
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

// observeCopies adds what is known about the disks that are copied during the migration, and creates the claims of the
// copies.
func (c *reconciler) observeCopies(ctx context.Context, is *migration.Situation) (err error) {
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

// prepareMigration takes the steps that precede the record of a plan, and reports whether it changed the VM. While
// disks are copied, it holds the VM: the record of which volume contains the guest's last writes must not disappear
// with the VM.
func (c *reconciler) prepareMigration(ctx context.Context, s *decide.Snapshot, round *apply.Round, p migration.Plan) (
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

// clearMigration removes what the VM's last migration, which has ended, has left. It reports whether it changed the
// VM. next is the operation that requests another migration, or nil.
func (c *reconciler) clearMigration(ctx context.Context, s *decide.Snapshot, round *apply.Round,
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
