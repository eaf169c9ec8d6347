package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/regular"
	"vmop/runner"
	"vmop/runner/config"
	"vmop/runner/notify"
	"vmop/runner/status/k8s"
	"vmop/vmtypes/policy"
)

const runText = "run starts the VM NAME, or that of -c, and exits when it has ended. TERM and INT (Ctrl-C)\n" +
	"shut the guest down: through its agent, then by the power button, then by force when\n" +
	"powerdownTimeout has passed. On a terminal, a second Ctrl-C asks again, and another\n" +
	"one within 2 seconds ends the VM at once. HUP reloads the configuration."

func newRun(f *flags) *cobra.Command {
	var console bool
	var powerOffOn string
	var box container
	cmd := &cobra.Command{
		Use:     "run [NAME]",
		Short:   "Run the VM until it ends",
		Long:    runText,
		Args:    oneName,
		GroupID: groupFile, ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			postponeGC()
			var notices io.Writer = os.Stderr
			if console || powerOffOn != "" {
				f.console = newConsoleLog(!cmd.Flags().Changed("log-level"))
				notices = consoleLines{f.console, true}
			}
			log, err := f.runnerLog(cmd)
			if err != nil {
				return err
			}
			if err := box.enter(log); err != nil {
				return f.logged(log, err)
			}
			if err := f.takeName(cmd, args); err != nil {
				return f.logged(log, err)
			}
			limits, policyFault := policy.Load(f.types.Policy)
			manager, err := notify.FromEnvironment()
			if err != nil {
				return err
			}
			reload, stop := hangUps()
			defer stop()
			opts := runner.Options{
				Options: f.prepareBy(limits), PolicyFault: policyFault, Manager: manager, Reporter: box.reporter,
				Control: box.control, GracePeriod: box.grace, Receive: box.receive, Reread: reload, Log: log,
				Version: version,
			}
			defer insist(cmd.Context(), f.config, notices)()
			opts.DisplaySecret = os.Getenv(config.DisplaySecretVariable)
			if f.console == nil {
				return f.logged(log, run(cmd.Context(), opts, &box))
			}
			return f.logged(log, runWatched(cmd.Context(), opts, &box, f.console, powerOffOn))
		},
	}
	cmd.Flags().BoolVar(&console, "console", false,
		"show the guest's serial console; on a terminal, ^] detaches\nand Ctrl-C asks the guest to power off")
	cmd.Flags().StringVar(&powerOffOn, "poweroff-on", "",
		"power the guest off when a line of its console matches this\n`regexp`")
	cmd.Flags().StringVar(&box.account, "account", k8s.DefaultServiceAccount,
		"`folder` of the service account, in a cluster\n")
	cmd.Flags().StringVar(&box.message, "termination-log", "",
		"`file` to which how the VM ended is written as JSON (default\n"+terminationLog+" in a VM's pod)")
	cli.CompleteFolder(cmd, "account")
	cli.CompleteFile(cmd, "termination-log")
	return cmd
}

// runWatched runs the VM, shows its console on out, and powers the guest off at a line that
// matches powerOffOn, unless that is empty. A VM that ends without such a line is an error.
func runWatched(
	ctx context.Context, opts runner.Options, box *container, out *consoleLog, powerOffOn string,
) error {
	var until *regexp.Regexp
	if powerOffOn != "" {
		var err error
		if until, err = regexp.Compile(powerOffOn); err != nil {
			return cli.UsageError{Err: fmt.Errorf("--poweroff-on: %w", err)}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, out.release)() // what is done to end the guest is of interest
	view := &consoleView{out: out, log: opts.Log, powerOff: cancel, until: until}
	opts.OnPaused = view.attach
	err := run(ctx, opts, box)
	view.close()
	if err == nil && view.missed() {
		err = fmt.Errorf("the VM ended, but no line of its console matched %q", until)
	}
	return err
}

// run runs the VM. It returns an error also if the VM ran and did not end well.
func run(ctx context.Context, opts runner.Options, box *container) error {
	go settleDown(ctx)
	outcome, err := runner.Run(ctx, opts)
	if err == nil && outcome.ExitCode() != 0 {
		err = outcomeError{outcome}
	}
	box.leave(ctx, opts, outcome, err)
	return err
}

// hasConfig returns a usage error if there is no configuration file.
func (f *flags) hasConfig() error {
	_, err := regular.Stat(f.config)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.UsageError{Err: fmt.Errorf("no configuration at %s; specify it with -c FILE", f.config)}
	}
	return nil // any other fault is reported when the file is read
}

// logged writes an error to the log if that is JSON, which programs read, and marks it
// so that main doesn't print it as well.
func (f *flags) logged(log *slog.Logger, err error) error {
	if err == nil || f.log.Form != "json" {
		return err
	}
	log.Error("stopped", "state", "Stopped", "err", err.Error())
	return loggedError{err}
}
