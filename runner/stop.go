package runner

import (
	"context"
	"fmt"
	"time"

	"vmop/process"
)

// termTime is what a process has to end that gets SIGTERM.
const termTime = 5 * time.Second

// endProcess ends a process that is left when everything else has been done.
// Its time is its own: it is called when the runner's is over.
func endProcess(ctx context.Context, p *process.Process) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*termTime)
	defer cancel()
	if err := p.Terminate(ctx, termTime); err != nil {
		return fmt.Errorf("end %s: %w", p.Name(), err)
	}
	return nil
}
