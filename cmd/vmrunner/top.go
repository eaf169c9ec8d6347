package main

import (
	"context"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/config"
	"vmop/runner/control"
)

func newTop() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what the running VMs use",
		Long: "top shows what the running VMs of this user use of the host, the busiest first: processors (100% is\n" +
			"one), memory, and what they read, write, receive and send in a second, on average of up to 30\n" +
			"seconds. Of networks only taps are counted. It prints that once: watch vmrunner top repeats it.",
		Args:    cli.NoArguments,
		GroupID: groupRunning, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dirs, all := map[string]string{}, []control.RateOf{}
			for _, m := range machines(config.HostEnv()) {
				dirs[m.Name] = m.RuntimeDir
				all = append(all, control.RateOf{Name: m.Name})
			}
			runner := func(ctx context.Context, vm control.RateOf) (*control.Client, error) {
				return dialDir(ctx, dirs[vm.Name])
			}
			control.AskRates(cmd.Context(), all, maxQueries, runner, withoutStatus)
			if form != "table" {
				return cli.PrintValue(cmd.OutOrStdout(), form, all)
			}
			if len(all) == 0 {
				cmd.PrintErrln("no VM is running")
				return nil
			}
			return cli.Table(cmd.OutOrStdout(), control.RateTable(all, false))
		},
	}
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	return cmd
}
