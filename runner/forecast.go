package runner

import (
	"context"
	"fmt"

	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/config/follow"
	"vmop/runner/control"
)

// forecastChange returns the effects that another configuration would have on the running machine. It compares with the
// record of the machine's start, because other goroutines own the machine's values.
func (m *run) forecastChange(ctx context.Context, text []byte) (f control.Forecast, err error) {
	if !m.there.Load() {
		return f, errNotThere
	}
	started, there, err := record.Read(m.vm.RuntimeDir)
	if err == nil && !there {
		err = control.ErrNotRunning
	}
	if err != nil {
		return f, err
	}
	running, err := started.VM(ctx, m.vm.RuntimeDir)
	if err != nil {
		return f, fmt.Errorf("read what the VM was started with: %w", err)
	}
	cfg, _, err := config.Parse(m.vm.File, text)
	if err == nil {
		f.Now, f.Later, err = follow.Forecast(ctx, m.opts.Options, running, cfg)
	}
	if ctx.Err() != nil {
		return f, ctx.Err()
	}
	if err != nil {
		f.Fault = err.Error()
	}
	return f, nil
}
