package vm

import (
	"context"
	"errors"
	"fmt"

	"vmop/manager/decide"
)

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
