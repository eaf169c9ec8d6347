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
	"vmop/cli"
	"vmop/manager/act"
)

// diskKind is what kubectl calls a disk.
const diskKind = "virtualdisk." + v1.GroupName

// newDisk returns the verb whose subcommands are about disks that outlive VMs.
func newDisk(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "disk", Short: "Make, list and change disks that outlive VMs", GroupID: groupChange, Args: cli.NoArguments,
		Long: "disk is about VirtualDisks, which VMs have by spec.blockDeviceRefs, one after another. A disk is NAME or\n" +
			"vd/NAME. Disks of spec.vm.disks are the VM's own, and not among them.",
		RunE: wantSubcommand,
	}
	cmd.AddCommand(newDiskList(f), newDiskCreate(f), newDiskUpload(f), newDiskExport(f), newDiskResize(f),
		newDiskRemove(f), newDiskAttach(f), newDiskDetach(f))
	return cmd
}

// onlyCluster returns the cluster for a verb that the manager has no request for.
func (f *flags) onlyCluster(cmd *cobra.Command) (*cluster, error) {
	switch m, err := f.viaManager(cmd); {
	case err != nil:
		return nil, err
	case m != nil:
		verb := strings.TrimPrefix(cmd.CommandPath(), "kubectl vmop ")
		return nil, cli.UsageError{Err: fmt.Errorf("%s: the manager has no request for it: leave --manager out", verb)}
	}
	return f.connect(cmd)
}

func typedDisk(d *v1.VirtualDisk) *v1.VirtualDisk {
	d.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualDisk"))
	return d
}

func newDiskList(f *flags) *cobra.Command {
	const long = "list shows the disks of the namespace: their phase, how far the import of their data is, the VM that has\n" +
		"them, and where their data comes from. kubectl get vd shows those of all namespaces (-A), and changes (-w)."
	return newList(f, "disk", long, func(cmd *cobra.Command, c *cluster, form string) error {
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
			typedDisk(&list.Items[i]).ManagedFields = nil // as kubectl shows objects
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
