package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"vmop/internal/cli"
	"vmop/internal/cli/attach"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/vmstatus"
)

// oneVM makes a verb require the NAME of exactly one configured VM.
func (f *flags) oneVM(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || cmd.Flags().Changed("config") {
			return cli.UsageError{Err: fmt.Errorf("which VM? Specify its NAME, not a file: %s", cmd.UseLine())}
		}
		return oneName(cmd, args)
	}
	cmd.ValidArgsFunction = f.completeConfigured
}

func newStart(f *flags) *cobra.Command {
	var console, wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "start NAME",
		Short: "Start a VM in the background",
		Long: "Start a VM in the background, and return when its guest is running. To run a VM in the\n" +
			"foreground, use \"vmrunner run NAME\".\n\n" +
			"If systemd has a service vmrunner@NAME, that service is started. Otherwise the VM runs\n" +
			"as a process that outlives the terminal and logs to runner.log in the VM's data\n" +
			"directory. Ctrl-C ends a VM that is still starting.",
	}
	f.oneVM(cmd)
	cmd.Flags().BoolVar(&console, "console", false, "show the guest's serial console after the start; ^] disconnects")
	cli.WaitFlags(cmd, &wait, &limit, "the guest's agent or SSH server answers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		if err := startShown(cmd, all, args[0]); err != nil {
			return err
		}
		return f.afterStart(cmd, all, args[0], console, wait, limit)
	}
	return cmd
}

// preparingTime is the interval between status requests to a VM that is starting.
const preparingTime = 500 * time.Millisecond

// startShown starts a VM and shows the progress of creating its disks.
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

// withLog adds to the cause of a failed start how to see the rest of the log.
func withLog(err error) error {
	var failed *inventory.StartError
	if !errors.As(err, &failed) || failed.ExitCode == 0 {
		return err
	}
	return fmt.Errorf("%w\nfor the rest, run: vmrunner log %s", err, failed.Name)
}

// printNotes prints what the user of a started VM should know.
func printNotes(cmd *cobra.Command, all *inventory.Inventory, vm *inventory.VM) {
	warnings := vm.UnusedSources()
	if vm.Status != nil {
		warnings = append(warnings, vm.Status.Configuration.Warnings...)
	}
	for _, w := range warnings {
		cmd.PrintErrln("warning:", cli.Printable(w))
	}
	if vm.Status != nil && vm.Status.QEMU.Emulated != "" {
		cmd.PrintErrln("warning: the guest is slow, because it is emulated:", cli.Printable(vm.Status.QEMU.Emulated))
	}
	if note := all.LogOutNote(vm); note != "" {
		cmd.PrintErrln("note:", cli.Printable(note))
	}
}

// afterStart handles a VM that has been started: it prints notes, waits for the boot, or shows the console.
func (f *flags) afterStart(
	cmd *cobra.Command, all *inventory.Inventory, name string, console, wait bool, limit time.Duration,
) error {
	vm, err := all.Find(cmd.Context(), name)
	if err != nil {
		return err
	}
	printNotes(cmd, all, vm)
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
		if err := awaitGuest(cmd, client, guestWait{name: name, agent: true, limit: limit}); err != nil {
			return err
		}
	}
	if !console {
		return nil
	}
	return attach.Console(cmd, client, control.Type, connected)
}

func newRestart(f *flags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "restart NAME",
		Short: "Restart a VM",
		Long: "Shut the guest down and start the VM again, so that pending changes take effect. A\n" +
			"stopped VM is started. A VM with an invalid configuration is not stopped. To reboot only\n" +
			"the guest, use \"vmrunner reset NAME\".",
	}
	f.oneVM(cmd)
	cli.ForceFlag(cmd, &force)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		if err := all.Restart(cmd.Context(), args[0], force); err != nil {
			return withLog(err)
		}
		cmd.PrintErrf("%s is running again\n", args[0])
		return nil
	}
	return cmd
}

func newDelete(f *flags) *cobra.Command {
	var opts inventory.DeleteOptions
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete the configuration of a VM",
		Long: "Delete the configuration of a VM, and its autostart. Disks and other data are kept and\n" +
			"listed. With --disks they are deleted, including the data of an earlier VM of this name.\n" +
			"\"vmrunner disk list --orphans\" shows such data.",
	}
	f.oneVM(cmd)
	cmd.Flags().BoolVar(&opts.Force, "force", false, "end the VM first if it is running, without asking the guest")
	cmd.Flags().BoolVar(&opts.Disks, "disks", false,
		"also delete the data directory: disks, firmware variables, TPM state")
	yesFlag(cmd, &yes)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.openInventory(cmd, nil)
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
			ok, err := newQuestions(cmd).askYesNo("Delete "+vm.File+" and everything in "+vm.DataDir+"?", false)
			if err != nil || !ok {
				return errors.Join(err, errors.New("nothing is deleted"))
			}
		}
		left, err := all.Delete(cmd.Context(), args[0], opts)
		if errors.Is(err, inventory.ErrRunning) {
			err = fmt.Errorf("%w; stop it with: vmrunner stop %s --wait, or use --force", err, args[0])
		}
		for _, path := range left {
			cmd.PrintErrln("left:", cli.Printable(path))
		}
		if err == nil {
			cmd.PrintErrf("%s is deleted\n", args[0])
		}
		return err
	}
	return cmd
}

// deleteOrphan deletes the data of a VM that was deleted earlier. It returns unknown if there are no such data.
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
	if _, err = all.DeleteOrphan(cmd.Context(), name); err == nil {
		cmd.PrintErrf("the data of %s are deleted\n", name)
	}
	return err
}

func newAutostart(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "autostart NAME on|off",
		Short: "Start a VM when the computer boots",
		Long: "Start a VM with systemd when the computer boots. A VM of a user starts at the user's\n" +
			"first log-in, or with \"loginctl enable-linger\" when the computer boots.",
	}
	f.oneVM(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 || args[1] != "on" && args[1] != "off" {
			return cli.UsageError{Err: errors.New("usage: vmrunner autostart NAME on, or off")}
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
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		on := args[1] == "on"
		note, err := all.Autostart(cmd.Context(), args[0], on)
		if err != nil {
			return err
		}
		if on {
			cmd.PrintErrf("%s starts automatically\n", args[0])
		} else {
			cmd.PrintErrf("%s doesn't start automatically\n", args[0])
		}
		if note != "" {
			cmd.PrintErrln("note:", note)
		}
		return nil
	}
	return cmd
}

// yesFlag adds --yes to a verb that asks questions.
func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "don't ask questions, even on a terminal")
}

// onTerminal reports whether the program can ask a user.
func onTerminal() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}
