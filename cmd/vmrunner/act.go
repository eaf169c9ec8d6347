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

// answerTime is how long a runner may take for an answer: longer than it gives
// itself for any action.
const answerTime = 45 * time.Second

// patient bounds a question to a runner.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("the runner does not answer within %s", answerTime))
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
		Long: "stop does what TERM does to the runner: it asks the guest to shut down, and ends\n" +
			"the VM by force when powerdownTimeout is over. It returns at once; with --wait\n" +
			"when the VM and its runner have gone, and says how the VM ended.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().BoolVar(&force, "force", false, "end the VM without asking the guest")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the VM and its runner have gone")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "how long to wait (0: as long as it takes)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit != 0 && !wait {
			return cli.UsageError{Err: errors.New("--timeout says how long to --wait")}
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

// how says how a VM ended.
func how(s status.Status) string {
	if s.Outcome == nil {
		return "stopped"
	}
	return or(s.Outcome.Message, string(s.Outcome.Cause))
}

// stopAndWait follows the status from before the VM is told to stop.
func stopAndWait(ctx context.Context, client *control.Client, what control.Action, limit time.Duration) (status.Status, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the VM has not stopped within %s", limit))
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
			return last, runner.Wait(ctx) // it has yet to clean up
		case err != nil && context.Cause(ctx) != nil:
			return last, context.Cause(ctx)
		case err != nil:
			return last, fmt.Errorf("wait for the VM's end: the runner has gone: %w", err)
		case e.Status != nil:
			last = *e.Status
		}
	}
}
