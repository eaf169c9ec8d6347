package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner"
	"vmop/runner/config"
	"vmop/runner/notify"
	"vmop/runner/status/k8s"
	"vmop/vmtypes/policy"
)

func newRun(f *flags) *cobra.Command {
	var console bool
	var powerOffOn string
	var box container
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the VM until it ends",
		Long: "run starts the VM and stays until it has ended. TERM and INT (Ctrl-C) ask the\n" +
			"guest to shut down: by its agent, then by the power button, then by force when\n" +
			"powerdownTimeout is over. HUP makes it read the configuration again.",
		Args:    cli.NoArguments,
		GroupID: groupFile, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hurry()
			log, err := f.runnerLog(cmd)
			if err != nil {
				return err
			}
			if err := box.enter(log); err != nil {
				return f.tell(log, err)
			}
			if err := f.hasConfig(); err != nil {
				return f.tell(log, err)
			}
			limits, policyFault := policy.Load(f.types.Policy)
			manager, err := notify.FromEnvironment()
			if err != nil {
				return err
			}
			told, stop := hangUps()
			defer stop()
			opts := runner.Options{Manager: manager, Reporter: box.reporter, GracePeriod: box.grace, DisplaySecret: os.Getenv(config.DisplaySecretVariable), Reread: told, ConfigFile: f.config, VMTypes: f.types.Folder, Policy: limits, PolicyFault: policyFault, Log: log, Version: version}
			if !console && powerOffOn == "" {
				return f.tell(log, run(cmd.Context(), opts, &box))
			}
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			view := &consoleView{out: cmd.OutOrStdout(), log: log, powerOff: cancel}
			if powerOffOn != "" {
				if view.until, err = regexp.Compile(powerOffOn); err != nil {
					return cli.UsageError{Err: fmt.Errorf("--poweroff-on: %w", err)}
				}
			}
			opts.OnPaused = view.attach
			err = run(ctx, opts, &box)
			view.close()
			if err == nil && view.missed() {
				err = fmt.Errorf("the VM ended, but its console said nothing that matches %q", powerOffOn)
			}
			return f.tell(log, err)
		},
	}
	cmd.Flags().BoolVar(&console, "console", false, "show the guest's serial console; on a terminal, ^] detaches\nand Ctrl-C asks the guest to power off")
	cmd.Flags().StringVar(&powerOffOn, "poweroff-on", "", "power the guest off when a line of its console matches this `regexp`")
	cmd.Flags().StringVar(&box.account, "account", k8s.DefaultServiceAccount, "`folder` of the service account, in a cluster\n")
	cmd.Flags().StringVar(&box.message, "termination-log", "", "`file` that gets JSON about how the VM ended (default\n"+terminationLog+" in a VM's pod)")
	cli.CompleteFolder(cmd, "account")
	cli.CompleteFile(cmd, "termination-log")
	return cmd
}

// run runs the VM; an outcome that is not good is an error.
func run(ctx context.Context, opts runner.Options, box *container) error {
	go settleDown(ctx)
	outcome, err := runner.Run(ctx, opts)
	if err == nil && outcome.ExitCode() != 0 {
		err = outcomeError{outcome}
	}
	box.leave(ctx, opts, outcome, err)
	return err
}

// hasConfig makes a file that isn't there a wrong call, with a word about how a
// right one looks.
func (f *flags) hasConfig() error {
	_, err := os.Stat(f.config)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.UsageError{Err: fmt.Errorf("there is no configuration %s; -c FILE says where it is", f.config)}
	}
	return nil // what else is wrong shows when it is read
}

// tell puts an error into a log that programs read; otherwise main prints it.
func (f *flags) tell(log *slog.Logger, err error) error {
	if err == nil || f.log.Form != "json" {
		return err
	}
	log.Error("stopped", "state", "Stopped", "err", err.Error())
	return loggedError{err}
}
