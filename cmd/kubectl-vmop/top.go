package main

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/runner/control"
)

// mostTops is the maximum number of concurrent queries. Each query executes a program in the VM's pod.
const mostTops = 8

func newTop(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "top", Short: "Show the resources used by running VMs", GroupID: groupLook,
		Long: "Show the host resources used by running VMs of the namespace, the busiest first:\n" +
			"processors (100% is one), memory, and bytes read, written, received and sent per second,\n" +
			"averaged over up to 30 seconds. Only tap and masquerade networks are counted.",
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
			return c.runnerClient(ctx, vms[of.Name]), nil
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
