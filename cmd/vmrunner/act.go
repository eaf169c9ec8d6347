package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/runner/status"
)

// boundRequest limits the time of a request to a runner.
func boundRequest(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, control.AnswerTime,
		fmt.Errorf("the runner did not answer within %s", control.AnswerTime))
}

// newAction returns the verb that sends an action to the runner. done is the result for people, after the VM.
func newAction(f *flags, what control.Action, done, short, long string) *cobra.Command {
	cmd := &cobra.Command{Use: string(what) + " [NAME]", Short: short, Long: long}
	vm := aboutVM(f, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		if err := sendAction(cmd.Context(), client, what); err != nil {
			return err
		}
		cmd.PrintErrf("%s %s\n", vm.shownName(args), done)
		return nil
	}
	return cmd
}

func sendAction(ctx context.Context, client *control.Client, what control.Action) error {
	ctx, cancel := boundRequest(ctx)
	defer cancel()
	return client.Act(ctx, what)
}

func newStop(f *flags) *cobra.Command {
	var force, wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Ask the guest to shut down",
		Long: "Ask the guest to shut down, and end the VM by force after powerdownTimeout. The command\n" +
			"returns immediately; with --wait or --force it returns when the VM has ended, and prints\n" +
			"how.\n\n" +
			"If the runner does not answer, stop sends it TERM, and stop --force kills the runner and\n" +
			"ends QEMU.",
	}
	vm := aboutVM(f, cmd)
	cli.ForceFlag(cmd, &force)
	cli.WaitFlags(cmd, &wait, &limit, "the VM and its runner have ended")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := vm.findRuntimeDir(cmd, args)
		if err != nil {
			return err
		}
		s, err := stopIn(cmd.Context(), dir, vm.dataDir, force, wait, limit)
		if err != nil {
			return vm.explainTarget(cmd, args, orNoRunner(err, dir))
		}
		if wait || force {
			cmd.PrintErrf("%s: %s\n", cli.Printable(firstNonEmpty(s.Name, "the VM")), cli.Printable(endText(s)))
		} else {
			cmd.PrintErrf("%s was asked to shut down\n", vm.shownName(args))
		}
		return nil
	}
	return cmd
}

// stopIn stops the VM that uses the given directories. It waits at most limit; 0 means no limit.
func stopIn(ctx context.Context, runtimeDir, dataDir string, force, wait bool, limit time.Duration) (
	status.Status, error,
) {
	if limit == 0 {
		return inventory.StopAt(ctx, runtimeDir, dataDir, force, wait)
	}
	in, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := inventory.StopAt(in, runtimeDir, dataDir, force, wait)
	late := in.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) // a connection may notice the deadline first
	if err != nil && late && ctx.Err() == nil {
		return s, fmt.Errorf("the VM did not stop within %s", limit)
	}
	return s, err
}

// endText describes how a VM ended.
func endText(s status.Status) string {
	if s.Outcome == nil {
		return "stopped"
	}
	return firstNonEmpty(s.Outcome.Message, string(s.Outcome.Cause))
}
