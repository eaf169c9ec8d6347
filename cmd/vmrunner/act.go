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
	"vmop/runner/inventory"
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
			"--wait it returns when the VM and its runner have ended, and prints how the VM ended.\n" +
			"If the runner can't be asked, because its socket was removed, or it does not answer, stop\n" +
			"sends it that signal, and stop --force kills it and ends QEMU.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().BoolVar(&force, "force", false, "end the VM without asking the guest to shut down")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the VM and its runner have ended")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "limit for --wait (0: none)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit != 0 && !wait {
			return cli.UsageError{Err: errors.New("--timeout needs --wait")}
		}
		dir, err := vm.find(cmd, args)
		if err != nil {
			return err
		}
		s, err := stopIn(cmd.Context(), dir, vm.dataDir, force, wait, limit)
		if err != nil {
			return orNoRunner(err, dir)
		}
		if wait {
			cmd.PrintErrf("%s: %s\n", cli.Printable(or(s.Name, "the VM")), cli.Printable(how(s)))
		}
		return nil
	}
	return cmd
}

// stopIn stops the VM that has some directories. It waits as long as the limit says; 0: there is none.
func stopIn(ctx context.Context, runtimeDir, dataDir string, force, wait bool, limit time.Duration) (
	status.Status, error,
) {
	if limit == 0 {
		return inventory.StopAt(ctx, runtimeDir, dataDir, force, wait)
	}
	in, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := inventory.StopAt(in, runtimeDir, dataDir, force, wait)
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
