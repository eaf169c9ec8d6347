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

	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/runner"
	"vmop/runner/config"
	"vmop/runner/status/k8s"
	"vmop/runner/status/notify"
	"vmop/vmtypes/policy"
)

const runText = "Run the VM NAME, or the VM of -c, and exit when it has ended. TERM and INT (Ctrl-C) shut\n" +
	"the guest down: through its agent, then with the power button, then by force after\n" +
	"powerdownTimeout. On a terminal, a second Ctrl-C asks again, and a third within 2\n" +
	"seconds ends the VM immediately. HUP reloads the configuration. Without --log-level,\n" +
	"logging.properties next to the configuration sets the level of the log, if it exists."

func newRun(f *flags) *cobra.Command {
	var console bool
	var powerOffOn string
	var box container
	cmd := &cobra.Command{
		Use:               "run [NAME]",
		Short:             "Run the VM until it ends",
		Long:              runText,
		Args:              oneName,
		ValidArgsFunction: f.completeConfigured,
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
			if err := box.enterPod(log); err != nil {
				return f.logFinalError(log, err)
			}
			if err := f.takeName(cmd, args); err != nil {
				return f.logFinalError(log, err)
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
			defer watchInterrupts(cmd.Context(), f.config, notices)()
			opts.DisplaySecret = os.Getenv(config.DisplaySecretVariable)
			if f.console == nil {
				return f.logFinalError(log, runVM(cmd.Context(), opts, &box))
			}
			return f.logFinalError(log, runWatched(cmd.Context(), opts, &box, f.console, powerOffOn))
		},
	}
	cmd.Flags().BoolVar(&console, "console", false,
		"show the guest's serial console; on a terminal, ^] detaches\nand Ctrl-C asks the guest to power off")
	cmd.Flags().StringVar(&powerOffOn, "poweroff-on", "",
		"power the guest off when a line of its console matches this\n`REGEXP`")
	cmd.Flags().StringVar(&box.account, "account", k8s.DefaultServiceAccount,
		"`DIR` of the service account, in a cluster")
	cmd.Flags().StringVar(&box.message, "termination-log", "",
		"`FILE` for the VM's result as JSON (default\n"+terminationLog+" in a VM's pod)")
	cli.CompleteFolder(cmd, "account")
	hideFlags(cmd, "account", "termination-log") // for pods, which the manager starts
	cli.CompleteFile(cmd, "termination-log")
	return cmd
}

// runWatched runs the VM and shows its console on out. If powerOffOn is not empty, it powers the guest off when a
// line matches powerOffOn. It returns an error if the VM ends without such a line.
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
	defer context.AfterFunc(ctx, out.releaseHeld)() // from now on, the log of ending the guest is of interest
	view := &consoleView{out: out, log: opts.Log, powerOff: cancel, until: until}
	opts.OnPaused = view.attachConsole
	err := runVM(ctx, opts, box)
	view.detachConsole()
	if err == nil && view.missedPattern() {
		err = fmt.Errorf("the VM ended, but no line of its console matched %q", until)
	}
	return err
}

// runVM runs the VM. It also returns an error if the VM ran but ended with a failure.
func runVM(ctx context.Context, opts runner.Options, box *container) error {
	go settleDown(ctx)
	outcome, err := runner.Run(ctx, opts)
	if err == nil && outcome.ExitCode() != 0 {
		err = outcomeError{outcome}
	}
	box.leavePod(ctx, opts, outcome, err)
	return err
}

// hasConfig returns a usage error if the configuration file does not exist.
func (f *flags) hasConfig() error {
	_, err := readfile.Stat(f.config)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.UsageError{Err: fmt.Errorf("no configuration at %s; specify it with -c FILE", f.config)}
	}
	return nil // other errors are reported when the file is read
}

// logFinalError writes an error to a JSON log, which programs read, and marks the error so that main does not print it
// again. It returns other errors unchanged.
func (f *flags) logFinalError(log *slog.Logger, err error) error {
	if err == nil || f.log.Form != "json" {
		return err
	}
	log.Error("stopped", "state", "Stopped", "err", err.Error())
	return loggedError{err}
}

// hideFlags omits flags from the help.
func hideFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.Flags().MarkHidden(name); err != nil {
			panic(err) // cannot happen: the flag exists
		}
	}
}
