package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// answerTime bounds a request to a runner. It is longer than the runner's own limit for
// any action.
const answerTime = 45 * time.Second

// patient bounds a request to a runner.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("the runner did not answer within %s", answerTime))
}

func newAction(f *flags, what control.Action, short, long string) *cobra.Command {
	cmd := &cobra.Command{Use: string(what) + " [NAME]", Short: short, Long: long}
	vm := aboutVM(f, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dial(cmd, args)
		if err != nil {
			return err
		}
		return act(cmd.Context(), client, what)
	}
	return cmd
}

func act(ctx context.Context, client *control.Client, what control.Action) error {
	ctx, cancel := patient(ctx)
	defer cancel()
	return client.Act(ctx, what)
}

func newStop(f *flags) *cobra.Command {
	var force, wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Ask the guest to shut down",
		Long: "stop has the same effect as TERM to the runner: it asks the guest to shut down, and\n" +
			"ends the VM by force when powerdownTimeout has passed. It returns immediately; with\n" +
			"--wait it returns when the VM and its runner have ended, and prints how the VM ended.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().BoolVar(&force, "force", false, "end the VM without asking the guest to shut down")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the VM and its runner have ended")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "limit for --wait (0: none)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit != 0 && !wait {
			return cli.UsageError{Err: errors.New("--timeout needs --wait")}
		}
		client, err := vm.dial(cmd, args)
		if err != nil {
			return err
		}
		what := control.Stop
		if force {
			what = control.Kill
		}
		if !wait {
			return act(cmd.Context(), client, what)
		}
		s, err := stopAndWait(cmd.Context(), client, what, limit)
		if err != nil {
			return err
		}
		cmd.PrintErrf("%s: %s\n", cli.Printable(s.Name), cli.Printable(how(s)))
		return nil
	}
	return cmd
}

// how returns how a VM ended.
func how(s status.Status) string {
	if s.Outcome == nil {
		return "stopped"
	}
	return or(s.Outcome.Message, string(s.Outcome.Cause))
}

// stopAndWait requests the stop and returns the last status. It subscribes to the status
// before that, so that it misses nothing.
func stopAndWait(
	ctx context.Context, client *control.Client, what control.Action, limit time.Duration,
) (status.Status, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the VM did not stop within %s", limit))
		defer cancel()
	}
	var last status.Status
	runner, err := client.Process(ctx)
	if err != nil {
		return last, err
	}
	defer runner.Close()
	events, err := client.Events(ctx, control.TypeStatus)
	if err != nil {
		return last, err
	}
	defer events.Close()
	if err := act(ctx, client, what); err != nil {
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
