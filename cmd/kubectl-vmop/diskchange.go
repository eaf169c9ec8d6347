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
	"vmop/internal/cli"
	"vmop/manager/disk"
)

func newDiskResize(f *flags) *cobra.Command {
	var form string
	var w waiting
	cmd := &cobra.Command{
		Use: "resize NAME SIZE", Short: "Enlarge a disk",
		Long: "Enlarge a disk, even while a VM uses it, if its storage class allows expansion. A disk\n" +
			"cannot shrink. Enlarge the partitions in the guest.",
		Example: "  kubectl vmop disk resize web-data 20Gi --wait",
	}
	diskNoun().takeName(f, cmd, 1, cobra.ShellCompDirectiveNoFileComp)
	doneFlag(cmd, &form)
	w.addFlags(cmd, "the volume has grown, or waits for a VM with the disk to start")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := diskNoun().bareName(args[0])
		if _, err := resource.ParseQuantity(args[1]); err != nil {
			return cli.UsageError{Err: fmt.Errorf("%s: must be a size such as 20Gi", args[1])}
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		patch, err := json.Marshal(map[string]any{
			"spec": map[string]any{"persistentVolumeClaim": map[string]any{"size": args[1]}},
		})
		if err != nil {
			return fmt.Errorf("encode the change: %w", err)
		}
		d, err := c.disks.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil {
			return diskNoun().explainObject(c, name, err)
		}
		if w.wait {
			if d, err = c.awaitDisk(ctx, cmd, name, hasGrown(d.Generation)); err != nil {
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
		Long: "Delete a disk with all its data, immediately and without confirmation. A disk that a VM\n" +
			"uses is not deleted.",
		Example: "  kubectl vmop disk remove web-data",
	}
	diskNoun().takeName(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	doneFlag(cmd, &form)
	w.addFlags(cmd, "the disk is deleted")
	cmd.RunE = f.inCluster(&w, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		name := diskNoun().bareName(args[0])
		d, err := c.disks.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return diskNoun().explainObject(c, name, err)
		}
		if err := c.disks.Delete(ctx, name, deleteOptions(d, w.wait)); err != nil {
			return diskNoun().explainObject(c, name, err)
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
