package vm

import (
	"context"
	"errors"
	"fmt"

	"vmop/manager/apply"
	"vmop/manager/decide"
)

// vmType takes the steps about a VM's class and type. It reports whether something was written.
func (c *reconciler) vmType(start *steps, s *decide.Snapshot, round *apply.Round) (
	verdict decide.Verdict, written bool,
) {
	start.run(s.Class.Check)
	var known *decide.Verdict
	written = step(start, false, func() (written bool, did decide.Report) {
		written, known, did = c.typeImage(start.ctx, s, round)
		return written, did
	})
	if known != nil || written {
		return value(known), written
	}
	unknown := decide.TypeUnknown("")
	return step(start, unknown, func() (decide.Verdict, decide.Report) { return c.checkType(start.ctx, s) }), false
}

// value returns what a pointer points to; the zero value for nil.
func value[T any](of *T) (v T) {
	if of != nil {
		v = *of
	}
	return v
}

// checkType checks whether the VM's type makes a machine of it.
func (c *reconciler) checkType(ctx context.Context, s *decide.Snapshot) (verdict decide.Verdict, did decide.Report) {
	if known := decide.PreviewType(s); known != nil {
		did.Stop(known.Obstacle(), nil)
		return *known, did
	}
	modules, err := c.modules.of(ctx, c.live, s.Types)
	if err == nil {
		err = c.opts.Types.CheckType(ctx, s.VM, modules)
	}
	var refusal TypeRefused
	switch {
	case err == nil:
		verdict = decide.TypeAccepted()
	case errors.As(err, &refusal):
		verdict = decide.TypeRefused(refusal.Message)
		did.Stop(verdict.Obstacle(), nil)
	default:
		verdict = decide.TypeUnknown(decide.Readable(err.Error()))
		did.Stop(nil, fmt.Errorf("check the type of VM %s: %w", s.VM.Name, err))
	}
	return verdict, did
}
