package follow

import (
	"context"
	"slices"

	"vmop/runner/changes"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/runner/record"
	"vmop/runner/status"
)

// Forecast returns what a running VM would do with another configuration: the changes
// that it takes over at once, and those that await a restart. The error says why the
// runner would not take the configuration, with its faults where they are.
//
// running is what record.Machine.VM returns. What is neither now nor later has no
// effect.
func Forecast(
	ctx context.Context, opts prepare.Options, running *prepare.VM, cfg *config.Config,
) (now, later []status.Change, err error) {
	wanted, err := running.Renewed(cfg)
	if err != nil {
		return nil, nil, err
	}
	c := &Config{Running: running, Options: opts}
	types := c.evaluation(ctx)
	defer types.close()
	if err := types.check(ctx, wanted); err != nil {
		return nil, nil, err
	}
	pending, err := types.pendingChanges(ctx, wanted)
	if err != nil {
		return nil, nil, err
	}
	later = pending.Changes
	before, err := running.Renewed(record.ReadConfig(running))
	if err != nil {
		return nil, nil, err
	}
	inForce := comparable(before, "")
	inForce.DataDir, inForce.RuntimeDir = running.DataDir, running.RuntimeDir
	for _, c := range changes.Differences(inForce, comparable(wanted, "")) {
		if !slices.ContainsFunc(later, func(l status.Change) bool { return l.Path == c.Path }) {
			now = append(now, c)
		}
	}
	return now, later, nil
}
