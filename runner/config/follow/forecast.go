package follow

import (
	"context"
	"slices"

	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/machine/changes"
	"vmop/runner/prepare"
	"vmop/runner/status"
)

// Forecast returns what another configuration would change in a running VM: changes that apply immediately, and
// changes that need a restart. The error explains why the runner would refuse the configuration, with the places
// of its errors.
//
// running comes from record.Machine.VM. Other changes have no effect.
func Forecast(
	ctx context.Context, opts prepare.Options, running *prepare.VM, cfg *config.Config,
) (now, later []status.Change, err error) {
	wanted, err := running.Renewed(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	c := &Config{Running: running, Options: opts}
	types := c.newEvaluation(ctx)
	defer types.close()
	if err := types.checkWanted(ctx, wanted); err != nil {
		return nil, nil, err
	}
	pending, err := types.pendingChanges(ctx, wanted)
	if err != nil {
		return nil, nil, err
	}
	later = pending.Changes
	before, err := running.Renewed(ctx, record.ReadConfig(running))
	if err != nil {
		return nil, nil, err
	}
	inForce := comparableMachine(before, "")
	inForce.DataDir, inForce.RuntimeDir = running.DataDir, running.RuntimeDir
	now = cardChanges(before, wanted)
	for _, c := range changes.Differences(inForce, comparableMachine(wanted, "")) {
		c.Path = networkPath(c.Path, wanted, before)
		if !slices.ContainsFunc(later, func(l status.Change) bool { return l.Path == c.Path }) {
			now = append(now, c)
		}
	}
	return now, later, nil
}
