package main

import (
	"context"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/config"
	"vmop/runner/control"
)

func newTop() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the resources used by running VMs",
		Long: "Show the host resources used by your running VMs, the busiest first: processors (100% is\n" +
			"one), memory, and bytes read, written, received and sent per second, averaged over up to\n" +
			"30 seconds. Only tap and masquerade networks are counted. To repeat it, use\n" +
			"\"watch vmrunner top\".",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dirs, all := map[string]string{}, []control.RateOf{}
			for _, m := range machinesWithSocket(config.HostEnv()) {
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
