package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"vmop/cli"
	"vmop/cli/attach"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/vmstatus"
)

// oneVM makes a verb take exactly the NAME of a VM that is configured.
func (f *flags) oneVM(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || cmd.Flags().Changed("config") {
			return cli.UsageError{Err: fmt.Errorf("which VM? Specify its NAME, not a file: %s", cmd.UseLine())}
		}
		return oneName(cmd, args)
	}
	cmd.ValidArgsFunction, cmd.GroupID = f.completeConfigured, groupNamed
}

func newStart(f *flags) *cobra.Command {
	var console, wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "start NAME",
		Short: "Start a VM in the background",
		Long: "start starts the VM that is configured by NAME, and returns when its guest is running.\n" +
			"Where systemd has a service vmrunner@NAME for it, it is started by that; else it runs as\n" +
			"a process of its own, which outlives the terminal and logs into runner.log in the VM's\n" +
			"data directory. Ctrl-C ends a VM that is being started. To run a VM in the foreground:\n" +
			"vmrunner run NAME.",
	}
	f.oneVM(cmd)
	cmd.Flags().BoolVar(&console, "console", false, "show the guest's serial console then; ^] leaves it")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the guest has booted, as its agent reports")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "limit for --wait (0: none)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit != 0 && !wait {
			return cli.UsageError{Err: errors.New("--timeout needs --wait")}
		}
		all, err := f.checking(cmd)
		if err != nil {
			return err
		}
		if err := startShown(cmd, all, args[0]); err != nil {
			return err
		}
		return f.started(cmd, all, args[0], console, wait, limit)
	}
	return cmd
}

// preparingTime is how often a VM that is being started is asked what is being done.
const preparingTime = 500 * time.Millisecond

// startShown starts a VM, and shows how far its disks have been made.
func startShown(cmd *cobra.Command, all *inventory.Inventory, name string) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		shown := cli.NewProgress(cmd)
		defer shown.End()
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(preparingTime):
			}
			vm, err := all.Find(ctx, name)
			if err == nil && vm.Status != nil && vm.Status.Reason == vmstatus.ReasonPreparingDisks {
				shown.Show("", vm.Status.Message)
			}
		}
	}()
	err := all.StartOrEnd(ctx, name, func() context.Context {
		cmd.PrintErrf("ending %s again; Ctrl-C leaves it to end in the background\n", name)
		again, stop := cli.UntilSignal(context.WithoutCancel(cmd.Context()))
		context.AfterFunc(again, stop)
		return again
	})
	cancel()
	<-done
	return withLog(err)
}

// withLog adds to the cause of a failed start where there is more.
func withLog(err error) error {
	var failed *inventory.StartError
	if !errors.As(err, &failed) || failed.ExitCode == 0 {
		return err
	}
	return fmt.Errorf("%w\nfor the rest, run: vmrunner log %s", err, failed.Name)
}

// started is what is done with a VM that has been started.
func (f *flags) started(
	cmd *cobra.Command, all *inventory.Inventory, name string, console, wait bool, limit time.Duration,
) error {
	vm, err := all.Find(cmd.Context(), name)
	if err != nil {
		return err
	}
	for _, w := range vm.UnusedSources() {
		cmd.PrintErrln("warning:", cli.Printable(w))
	}
	if note := all.LogOutNote(vm); note != "" {
		cmd.PrintErrln("note:", cli.Printable(note))
	}
	if !console && !wait {
		screen := ""
		if vm.Config != nil && vm.Config.VM.Display != nil {
			screen = "its screen: vmrunner view " + name + ", "
		}
		cmd.PrintErrf("%s is running; %sits console: vmrunner console %[1]s\n", name, screen)
		return nil
	}
	client, err := vm.Dial(cmd.Context())
	if err != nil {
		return err
	}
	if wait {
		if err := awaitBoot(cmd.Context(), client, limit); err != nil {
			return err
		}
	}
	if !console {
		return nil
	}
	return attach.Console(cmd, client, control.Type, connected)
}

// awaitBoot waits until the guest's agent has answered.
func awaitBoot(ctx context.Context, client *control.Client, limit time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the guest has not booted within %s", limit))
		defer cancel()
	}
	events, err := client.Events(ctx, control.TypeStatus)
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		e, err := events.Next()
		switch {
		case err != nil && context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return errors.New("the VM has ended before its guest had booted")
		case err != nil:
			return err
		case e.Status != nil && e.Status.State == vmstatus.StateBooted:
			return nil
		}
	}
}

func newRestart(f *flags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Stop a VM and start it again",
		Long: "restart asks the guest to shut down, waits for that, and starts the VM again as \"start\"\n" +
			"does: what awaits a restart takes effect. A VM that doesn't run is started. It is not\n" +
			"stopped if its configuration has faults. To reboot the guest alone: vmrunner reset NAME.",
	}
	f.oneVM(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "end the VM without asking the guest to shut down")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.checking(cmd)
		if err != nil {
			return err
		}
		return withLog(all.Restart(cmd.Context(), args[0], force))
	}
	return cmd
}

func newDelete(f *flags) *cobra.Command {
	var opts inventory.DeleteOptions
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete the configuration of a VM",
		Long: "delete removes a VM's configuration, and its autostart. Disks and everything else in its\n" +
			"data directory stay, unless --disks is given; what is left is printed. With --disks, delete also\n" +
			"removes the data of a VM that was deleted before; \"vmrunner disk list --orphans\" lists them.",
	}
	f.oneVM(cmd)
	cmd.Flags().BoolVar(&opts.Force, "force", false, "end the VM if it is running")
	cmd.Flags().BoolVar(&opts.Disks, "disks", false, "delete its data directory too: disks, firmware variables, TPM")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask on a terminal")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.inventory(cmd, nil)
		if err != nil {
			return err
		}
		vm, err := all.Find(cmd.Context(), args[0])
		if errors.Is(err, inventory.ErrUnknown) {
			return f.deleteOrphan(cmd, all, args[0], opts.Disks, yes, err)
		} else if err != nil {
			return err
		}
		if opts.Disks && !yes && onTerminal() {
			ok, err := newQuestions(cmd).agree("Delete "+vm.File+" and everything in "+vm.DataDir+"?", false)
			if err != nil || !ok {
				return errors.Join(err, errors.New("nothing is deleted"))
			}
		}
		left, err := all.Delete(cmd.Context(), args[0], opts)
		if errors.Is(err, inventory.ErrRunning) {
			err = fmt.Errorf("%w; stop it by: vmrunner stop %s --wait, or use --force", err, args[0])
		}
		for _, path := range left {
			cmd.PrintErrln("left:", cli.Printable(path))
		}
		return err
	}
	return cmd
}

// deleteOrphan deletes the data of a VM that was deleted before; unknown is the error if there are none.
func (f *flags) deleteOrphan(
	cmd *cobra.Command, all *inventory.Inventory, name string, disks, yes bool, unknown error,
) error {
	l, err := all.Orphan(cmd.Context(), name)
	switch {
	case errors.Is(err, inventory.ErrUnknown):
		return unknown
	case err != nil:
		return err
	case !disks:
		return fmt.Errorf("%w; its data are left in %s: remove them by: vmrunner delete %s --disks", unknown, l.Dir, name)
	}
	if err := f.mayRemove(cmd, l, yes); err != nil {
		return err
	}
	_, err = all.DeleteOrphan(cmd.Context(), name)
	return err
}

func newAutostart(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "autostart NAME on|off",
		Short: "Start a VM with the computer, or not",
		Long: "autostart has systemd start the VM with the computer, or a VM of a user with the user's\n" +
			"first log-in; \"loginctl enable-linger\" makes that the start of the computer, too.",
	}
	f.oneVM(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 || args[1] != "on" && args[1] != "off" {
			return cli.UsageError{Err: errors.New("want: vmrunner autostart NAME on, or off")}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []string{"on", "off"}, cobra.ShellCompDirectiveNoFileComp
		}
		return f.completeConfigured(cmd, args, word)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.checking(cmd)
		if err != nil {
			return err
		}
		note, err := all.Autostart(cmd.Context(), args[0], args[1] == "on")
		if note != "" {
			cmd.PrintErrln("note:", note)
		}
		return err
	}
	return cmd
}

// onTerminal reports whether a person can be asked.
func onTerminal() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}
