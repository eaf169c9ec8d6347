package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/control"
	"vmop/runner/status"
)

func newFreeze(f *flags) *cobra.Command {
	limit := control.FreezeTime
	cmd := &cobra.Command{
		Use:   "freeze [NAME]",
		Short: "Freeze the guest's file systems for a moment",
		Long: "Freeze the guest's file systems for a consistent copy of the disks: the guest agent\n" +
			"flushes them and blocks writes until thaw, or until the time is over. The runner thaws\n" +
			"them in any case. If they cannot be frozen, the command exits with 1 and the reason, and\n" +
			"a copy of the disks is only crash-consistent, as after a power cut.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().DurationVar(&limit, "time", limit, "thaw them after this `DURATION`, at most 1m")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit <= 0 || limit > control.MaxFreezeTime {
			return cli.UsageError{Err: fmt.Errorf("--time %s: must be more than 0, at most %s", limit,
				control.MaxFreezeTime)}
		}
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), limit+control.AnswerTime)
		defer cancel()
		a, err := client.Freeze(ctx, limit)
		switch {
		case err != nil:
			return err
		case !a.Frozen:
			return errors.New(a.Message)
		}
		thaw := append([]string{"vmrunner", "thaw"}, args...)
		for _, flag := range []string{"config", "runtime-dir"} {
			if cmd.Flags().Changed(flag) {
				thaw = append(thaw, "--"+flag, cmd.Flag(flag).Value.String())
			}
		}
		cmd.PrintErrf("%d file systems are frozen for at most %s; thaw them: %s\n", a.FileSystems, limit,
			cli.Printable(strings.Join(thaw, " ")))
		return nil
	}
	return cmd
}

func newThaw(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "thaw [NAME]",
		Short: "Thaw the guest's file systems",
		Long:  "Thaw frozen file systems. The command returns when the guest agent has thawed the file systems.",
	}
	vm := aboutVM(f, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		a, err := client.Thaw(ctx)
		if err != nil {
			return err
		}
		cmd.PrintErrf("%d file systems are thawed\n", a.FileSystems)
		return nil
	}
	return cmd
}

// frozenOf describes frozen file systems: "Frozen for 3s, until 12:00:07".
func frozenOf(f *status.Frozen, now time.Time) string {
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("%s for %s, until %s", f.State, shortDuration(now.Sub(f.Since)),
		f.Until.Local().Format(time.TimeOnly))
	if f.Message != "" {
		text += "; " + f.Message
	}
	return text
}
