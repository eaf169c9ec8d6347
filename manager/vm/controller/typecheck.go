package controller

import (
	"context"
	"errors"
	"fmt"

	v1 "vmop/api/v1"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/decide"
)

// typed contains what is known about a VM's type.
type typed struct {
	verdict decide.Verdict
	// architecture of the guest; the value from the status until it is determined again
	architecture string
	// sizes are the sizes that the type decides; the sizes from the status while they stay active
	sizes *v1.TypeSizes
}

// vmType runs the steps about a VM's class and type. It reports whether it wrote an object.
func (c *reconciler) vmType(start *steps, s *decide.Snapshot, round *apply.Round) (is typed, written bool) {
	is.architecture, is.sizes = s.VM.Status.Architecture, s.VM.Status.TypeSizes
	start.runStep(s.Class.Check)
	var known *decide.Verdict
	written = runStepFor(start, false, func() (written bool, did decide.Report) {
		written, known, did = c.typeImage(start.ctx, s, round)
		return written, did
	})
	if known != nil || written {
		is.verdict = valueOf(known)
		return is, written
	}
	is.verdict = decide.TypeUnknown("")
	is = runStepFor(start, is, func() (typed, decide.Report) { return c.checkType(start.ctx, s) })
	written = runStepFor(start, false, func() (bool, decide.Report) {
		written, err := round.TypeSizes(start.ctx, is.sizes)
		return written, decide.Report{Err: err}
	})
	return is, written
}

// valueOf returns *of, or the zero value if of is nil.
func valueOf[T any](of *T) (v T) {
	if of != nil {
		v = *of
	}
	return v
}

// checkType checks whether the VM's type accepts the VM, and for which architecture.
func (c *reconciler) checkType(ctx context.Context, s *decide.Snapshot) (is typed, did decide.Report) {
	is.architecture, is.sizes = s.VM.Status.Architecture, s.VM.Status.TypeSizes
	if known := decide.PreviewType(s); known != nil {
		is.verdict = *known
		did.Stop(known.Obstacle(), nil)
		return is, did
	}
	var accepted Accepted
	modules, err := c.modules.modulesOf(ctx, c.live, s.Types)
	if err == nil {
		accepted, err = c.opts.Types.CheckType(ctx, s.VM, modules)
	}
	var refusal TypeRefused
	switch {
	case err == nil:
		is = typed{decide.TypeAccepted(), accepted.Architecture, s.TypeSizes(accepted.Sizes)}
	case errors.As(err, &refusal):
		is.verdict = decide.TypeRefused(refusal.Message)
		did.Stop(is.verdict.Obstacle(), nil)
	default:
		is.verdict = decide.TypeUnknown(decide.Readable(err.Error()))
		did.Stop(nil, fmt.Errorf("check the type of VM %s: %w", s.VM.Name, err))
	}
	return is, did
}
