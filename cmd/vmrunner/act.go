package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/control"
	"vmop/runner/status"
)

// patient bounds a request to a runner.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, control.AnswerTime,
		fmt.Errorf("the runner did not answer within %s", control.AnswerTime))
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
		s, err := endIn(cmd.Context(), client, what, limit)
		if err != nil {
			return err
		}
		cmd.PrintErrf("%s: %s\n", cli.Printable(s.Name), cli.Printable(how(s)))
		return nil
	}
	return cmd
}

// endIn ends a VM, and waits for that as long as the limit says; 0: there is none.
func endIn(ctx context.Context, client *control.Client, what control.Action, limit time.Duration) (
	status.Status, error,
) {
	if limit == 0 {
		return client.End(ctx, what)
	}
	in, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := client.End(in, what)
	late := in.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) // a connection may notice it first
	if err != nil && late && ctx.Err() == nil {
		return s, fmt.Errorf("the VM did not stop within %s", limit)
	}
	return s, err
}

// how returns how a VM ended.
func how(s status.Status) string {
	if s.Outcome == nil {
		return "stopped"
	}
	return or(s.Outcome.Message, string(s.Outcome.Cause))
}
