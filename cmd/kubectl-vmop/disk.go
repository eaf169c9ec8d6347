package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/operation/act"
)

// diskKind is kubectl's name for the kind of a disk.
const diskKind = "virtualdisk." + v1.GroupName

// newDiskCommand returns the verb with the subcommands for disks that outlive VMs.
func newDiskCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "disk", Short: "Manage disks that outlive VMs", GroupID: groupChange, Args: cli.NoArguments,
		Long: "Manage VirtualDisks, which you attach to one VM at a time with spec.blockDeviceRefs.\n" +
			"DISK is NAME or vd/NAME. Disks in spec.vm.disks belong to the VM and are not listed.",
		RunE: wantSubcommand,
	}
	cmd.AddCommand(newDiskList(f), newDiskCreate(f), newDiskUpload(f), newDiskExport(f), newDiskResize(f),
		newDiskRemove(f), newDiskAttach(f), newDiskDetach(f))
	return cmd
}

// onlyCluster returns the cluster for a verb that the manager's API does not support.
func (f *flags) onlyCluster(cmd *cobra.Command) (*cluster, error) {
	switch m, err := f.viaManager(cmd); {
	case err != nil:
		return nil, err
	case m != nil:
		verb := strings.TrimPrefix(cmd.CommandPath(), "kubectl vmop ")
		return nil, cli.UsageError{Err: fmt.Errorf("%s: the manager has no request for it: leave --manager out", verb)}
	}
	return f.connectTo(cmd)
}

func typedDisk(d *v1.VirtualDisk) *v1.VirtualDisk {
	d.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualDisk"))
	return d
}

func newDiskList(f *flags) *cobra.Command {
	const long = "List the disks of the namespace: phase, import progress, VM, and data source. kubectl\n" +
		"get vd also lists all namespaces (-A) and follows changes (-w)."
	return newNounList(f, "disk", long, func(cmd *cobra.Command, c *cluster, form string) error {
		list, err := c.disks.List(cmd.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		return printDisks(cmd, form, list)
	})
}

func printDisks(cmd *cobra.Command, form string, list *v1.VirtualDiskList) error {
	out := cmd.OutOrStdout()
	switch form {
	case "json", "yaml":
		list.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualDiskList"))
		for i := range list.Items {
			typedDisk(&list.Items[i]).ManagedFields = nil // like kubectl
		}
		return cli.PrintValue(out, form, list)
	case "name":
		for i := range list.Items {
			if err := cli.WriteLine(out, diskKind+"/"+list.Items[i].Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list.Items) == 0 {
		cmd.PrintErrln("there are no disks in the namespace; make one by: kubectl vmop disk create NAME --size SIZE")
		return nil
	}
	rows := [][]string{{"NAME", "PHASE", "SIZE", "PROGRESS", "VM", "SOURCE", "AGE"}}
	for i := range list.Items {
		d := &list.Items[i]
		vm := ""
		for _, attached := range d.Status.AttachedToVirtualMachines {
			vm = attached.Name
		}
		rows = append(rows, []string{
			d.Name, string(d.Status.Phase), d.Spec.PersistentVolumeClaim.Size.String(), cmp.Or(d.Status.Progress, "-"),
			cmp.Or(vm, "-"), cmp.Or(act.SourceOf(d.Spec.DataSource), "blank"),
			duration.HumanDuration(time.Since(d.CreationTimestamp.Time)),
		})
	}
	return cli.Table(out, rows)
}
