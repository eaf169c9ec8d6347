package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/disks/snapshot"
)

func newSnapshot(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Manage snapshots of VMs", Args: cli.NoArguments,
		Long: "Create, list, restore and remove snapshots. A snapshot contains all writable disks of a\n" +
			"VM at one point in time, the firmware variables, the TPM state, the VM type and the\n" +
			"configuration. It is stored in the folder snapshots of the VM's data directory and\n" +
			"depends on no other file.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSnapshotCreate(f), newSnapshotList(f), newSnapshotRestore(f), newSnapshotRemove(f))
	return cmd
}

func newSnapshotCreate(f *flags) *cobra.Command {
	var noFreeze bool
	cmd := &cobra.Command{
		Use: "create NAME [SNAPSHOT]", Short: "Create a snapshot of a VM",
		Long: "Create a snapshot. Its default name is the time. While the VM is running, the guest\n" +
			"agent freezes the file systems for a moment; without an agent the snapshot is only\n" +
			"crash-consistent, as after a power cut, and a message reports it. The guest keeps\n" +
			"running while its disks are copied. Ctrl-C cancels the snapshot and removes its files.",
		Args: cli.Arguments(1, 2), ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.checkingInventory(cmd)
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 1 {
				name = args[1]
			}
			shown := cli.NewProgress(cmd)
			d, err := all.CreateSnapshot(cmd.Context(), args[0], name, !noFreeze, copyProgress(shown))
			shown.End()
			if err != nil {
				return err
			}
			if d.Running && !d.Frozen {
				cmd.PrintErrln("warning:", cli.Printable(d.Message))
			}
			if len(d.Omitted) > 0 {
				cmd.PrintErrln("warning: not in the snapshot, because an NBD server has what is on it:",
					cli.Printable(strings.Join(d.Omitted, ", ")))
			}
			cmd.PrintErrf("%s: %s, %s\n", d.Name, d.Consistency(), formatBytes(d.Bytes))
			return nil
		},
	}
	cmd.Flags().BoolVar(&noFreeze, "no-freeze", false, "don't freeze the guest's file systems")
	return cmd
}

// copyProgress returns a function that shows the number of copied bytes on a terminal.
func copyProgress(p *cli.Progress) func(snapshot.Progress) {
	return func(now snapshot.Progress) {
		if p.OnTerminal() && now.Total > 0 {
			p.Show("", fmt.Sprintf("copying: %d %% of %s", 100*now.Done/now.Total, formatBytes(now.Total)))
		}
	}
}

func newSnapshotList(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "list NAME", Short: "List the snapshots of a VM", Args: cli.Arguments(1, 1),
		ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.openInventory(cmd, nil)
			if err != nil {
				return err
			}
			list, err := all.Snapshots(cmd.Context(), args[0])
			if form != "table" {
				return errors.Join(cli.PrintValue(cmd.OutOrStdout(), form, nonNilList(list)), err)
			}
			rows := [][]string{{"SNAPSHOT", "CREATED", "CONSISTENCY", "STORED", "DISKS"}}
			for _, d := range list {
				disks := ""
				for _, p := range d.Parts {
					if p.Kind == snapshot.Disk {
						disks += fmt.Sprintf(", %s (%s)", p.Name, formatBytes(p.Size))
					}
				}
				for _, name := range d.Omitted {
					disks += ", without " + name
				}
				rows = append(rows, []string{
					d.Name, d.Created.Local().Format("2006-01-02 15:04"), d.Consistency(), formatBytes(d.Bytes),
					firstNonEmpty(disks[min(len(disks), 2):], "-"),
				})
			}
			return errors.Join(cli.Table(cmd.OutOrStdout(), rows), err)
		},
	}
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	return cmd
}

func newSnapshotRestore(f *flags) *cobra.Command {
	var withConfig bool
	var to string
	cmd := &cobra.Command{
		Use: "restore NAME SNAPSHOT", Short: "Restore a VM from a snapshot",
		SuggestFor: []string{"revert", "apply", "rollback"},
		Long: "Restore a stopped VM from a snapshot: all disks, firmware variables, TPM state and VM\n" +
			"type, together or not at all. Data written since the snapshot is lost. The snapshot is\n" +
			"kept.\n\n" +
			"With --to a new VM is created from the snapshot, with its own uuid and hardware\n" +
			"addresses. The original VM may be running and is not changed.",
		Args: cli.Arguments(2, 2), ValidArgsFunction: f.completeSnapshot,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.checkingInventory(cmd)
			if err != nil {
				return err
			}
			shown := cli.NewProgress(cmd)
			if to != "" {
				file, err := all.CloneSnapshot(cmd.Context(), args[0], args[1], to, copyProgress(shown))
				shown.End()
				if err == nil {
					cmd.PrintErrln("written:", cli.Printable(file))
				}
				return err
			}
			err = all.RestoreSnapshot(cmd.Context(), args[0], args[1], withConfig, copyProgress(shown))
			shown.End()
			if err == nil {
				cmd.PrintErrf("%s is restored from %s\n", args[0], args[1])
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&withConfig, "with-config", false, "also restore the configuration")
	cmd.Flags().StringVar(&to, "to", "", "create a new VM with this `NAME`, and leave the original VM unchanged")
	cli.AtMostOne(cmd, "with-config", "to")
	return cmd
}

func newSnapshotRemove(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME SNAPSHOT…", Short: "Remove snapshots of a VM",
		SuggestFor: []string{"rm", "delete", "prune"},
		Args:       cli.Arguments(2, -1), ValidArgsFunction: f.completeSnapshot,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.openInventory(cmd, nil)
			if err != nil {
				return err
			}
			for _, called := range args[1:] {
				e := all.RemoveSnapshot(cmd.Context(), args[0], called)
				if err = errors.Join(err, e); e == nil {
					cmd.PrintErrln("removed:", called)
				}
			}
			return err
		},
	}
}

// completeSnapshot completes NAME SNAPSHOT.
func (f *flags) completeSnapshot(
	cmd *cobra.Command, args []string, word string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return f.completeConfigured(cmd, args, word)
	}
	all, err := f.openInventory(cmd, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	list, _ := all.Snapshots(cmd.Context(), args[0]) // the verb itself reports the error
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
