package main

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/cli"
	"vmop/runner/control"
)

// mostTops is how many runners are asked at a time, each by a request that executes a program in its pod.
const mostTops = 8

func newTop(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "top", Short: "Show what the running VMs use", GroupID: groupLook,
		Long: "top asks the runners of the VMs that run in the namespace what these use, the busiest first:\n" +
			"processors (100% is one), memory, and what they read, write, receive and send in a second, on average\n" +
			"of up to 30 seconds. Of networks only those of type tap and masquerade are counted.",
		Args: cli.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		list, err := c.vms.List(cmd.Context(), metav1.ListOptions{})
		if err != nil {
			return unknownKind(err)
		}
		vms, all := map[string]*v1.VirtualMachine{}, []control.RateOf{}
		for i := range list.Items {
			vm := &list.Items[i]
			if vm.Status.Phase == v1.PhaseRunning || vm.Status.Phase == v1.PhaseMigrating {
				vms[vm.Name] = vm
				all = append(all, control.RateOf{Name: vm.Name, Node: vm.Status.NodeName})
			}
		}
		runner := func(ctx context.Context, of control.RateOf) (*control.Client, error) {
			return c.runner(ctx, vms[of.Name]), nil
		}
		control.AskRates(cmd.Context(), all, mostTops, runner, error.Error)
		if form != "table" {
			return cli.PrintValue(cmd.OutOrStdout(), form, all)
		}
		if len(all) == 0 {
			cmd.PrintErrln("no VM is running")
			return nil
		}
		return cli.Table(cmd.OutOrStdout(), control.RateTable(all, true))
	}
	return cmd
}
