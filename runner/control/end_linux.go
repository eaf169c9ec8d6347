package control

import (
	"context"
	"errors"
	"fmt"
	"io"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// End requests Stop or Kill, waits until the VM and its runner have ended, and returns the last status. It
// subscribes to the status before the request, so that it misses no status.
func (c *Client) End(ctx context.Context, what Action) (last status.Status, err error) {
	runner, err := c.Process(ctx)
	if err != nil {
		return last, err
	}
	defer runner.Close()
	events, err := c.Events(ctx, TypeStatus)
	if err != nil {
		return last, err
	}
	defer events.Close()
	acting, cancel := context.WithTimeoutCause(ctx, AnswerTime,
		fmt.Errorf("the runner did not answer within %s", AnswerTime))
	defer cancel()
	if err := c.Act(acting, what); err != nil {
		return last, err
	}
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF) && last.State == vmstatus.StateStopped:
			return last, runner.Wait(ctx) // it still cleans up
		case err != nil && context.Cause(ctx) != nil:
			return last, context.Cause(ctx)
		case err != nil:
			return last, fmt.Errorf("wait for the end of the VM: the runner has ended: %w", err)
		case e.Status != nil:
			last = *e.Status
		}
	}
}
