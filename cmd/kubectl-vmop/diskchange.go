package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/cli"
	"vmop/manager/disk"
)

func newDiskResize(f *flags) *cobra.Command {
	var form string
	var w waiting
	cmd := &cobra.Command{
		Use: "resize NAME SIZE", Short: "Make a disk larger",
		Long: "resize sets the size of a disk, which can grow and not shrink, also while a VM has it, if its storage\n" +
			"class lets volumes grow. The guest makes its partitions larger.",
		Example: "  kubectl vmop disk resize web-data 20Gi --wait",
	}
	disks().takes(f, cmd, 1, cobra.ShellCompDirectiveNoFileComp)
	doneFlag(cmd, &form)
	w.add(cmd, "the volume is as large, or only waits for a VM to start that has it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := disks().name(args[0])
		if _, err := resource.ParseQuantity(args[1]); err != nil {
			return cli.UsageError{Err: fmt.Errorf("%s: want a size such as 20Gi", args[1])}
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		patch, err := json.Marshal(map[string]any{
			"spec": map[string]any{"persistentVolumeClaim": map[string]any{"size": args[1]}},
		})
		if err != nil {
			return fmt.Errorf("encode the change: %w", err)
		}
		d, err := c.disks.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil {
			return disks().explain(c, name, err)
		}
		if w.wait {
			if d, err = c.awaitDisk(ctx, cmd, name, grown(d.Generation)); err != nil {
				return err
			}
			if d.Status.Reason == disk.ReasonGrowsLater {
				cmd.PrintErrln(cli.Printable(progressOf(d)))
			}
		}
		return printDone(cmd, form, typedDisk(d), diskKind, name, "resized")
	}
	return cmd
}

func newDiskRemove(f *flags) *cobra.Command {
	var form string
	var w waiting
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, SuggestFor: []string{"delete", "del"},
		Short: "Delete a disk and its data",
		Long: "remove deletes a disk with all its data, at once and without a question. A disk that a VM has isn't\n" +
			"deleted.",
		Example: "  kubectl vmop disk remove web-data",
	}
	disks().takes(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	doneFlag(cmd, &form)
	w.add(cmd, "it is gone")
	cmd.RunE = f.inCluster(&w, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		name := disks().name(args[0])
		d, err := c.disks.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return disks().explain(c, name, err)
		}
		if err := c.disks.Delete(ctx, name, deletion(d, w.wait)); err != nil {
			return disks().explain(c, name, err)
		}
		if w.wait {
			if _, err := c.awaitDisk(ctx, cmd, name, func(now *v1.VirtualDisk) (bool, error) {
				return now == nil || now.UID != d.UID, nil
			}); err != nil {
				return err
			}
		}
		return printDone(cmd, form, typedDisk(d), diskKind, name, "removed")
	})
	return cmd
}
