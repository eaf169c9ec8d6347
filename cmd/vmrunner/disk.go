package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

func newDiskCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "disk", Short: "Manage the disks of VMs", Args: cli.NoArguments,
		Long: "Manage the disks of VMs. DISK is the serial number that the guest sees. If the\n" +
			"configuration sets no serial number, it is the file name. \"vmrunner disk list\" shows it.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDiskList(f), newDiskCreate(f), newDiskImport(f), newDiskResize(f), newDiskExport(f),
		newDiskAttach(f), newDiskDetach(f))
	return cmd
}

func newDiskList(f *flags) *cobra.Command {
	var form string
	var orphans bool
	cmd := &cobra.Command{
		Use: "list [NAME]", Short: "List the disks of all VMs, or of one", Args: oneName,
		Long: "List the disks of all VMs, or of one VM. SOURCE is the image that a disk was created from.\n" +
			"With --orphans the list contains the disks and other data of deleted VMs. To remove them,\n" +
			"run \"vmrunner delete NAME --disks\".",
	}
	cmd.Flags().BoolVar(&orphans, "orphans", false, "list the disks and other data of deleted VMs")
	cmd.ValidArgsFunction = f.completeConfigured
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.openInventory(cmd, nil)
		if err != nil {
			return err
		}
		if orphans {
			return listOrphans(cmd, all, args, form)
		}
		names := args
		if len(args) == 0 {
			if names, err = all.Configured(); err != nil {
				return err
			}
		}
		list := []inventory.Disk{}
		for _, name := range names {
			some, e := all.Disks(cmd.Context(), name)
			list, err = append(list, some...), errors.Join(err, e)
		}
		if form != "table" {
			return errors.Join(cli.PrintValue(cmd.OutOrStdout(), form, list), err)
		}
		rows := [][]string{{"VM", "DISK", "SIZE", "STORED", "SOURCE", "FILE"}}
		for _, d := range list {
			size := formatBytes(d.Size)
			if d.Missing {
				size = "missing"
			}
			rows = append(rows, []string{
				d.VM, d.Name, size, formatBytes(d.Stored), firstNonEmpty(d.Source, "-"),
				d.File,
			})
		}
		return errors.Join(cli.Table(cmd.OutOrStdout(), rows), err)
	}
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	return cmd
}

// listOrphans lists the data of all deleted VMs, or of the deleted VM in names.
func listOrphans(cmd *cobra.Command, all *inventory.Inventory, names []string, form string) error {
	list, err := all.Orphans(cmd.Context())
	if err != nil {
		return err
	}
	if len(names) > 0 {
		list = slices.DeleteFunc(list, func(l inventory.Leftover) bool { return l.VM != names[0] })
	}
	if form != "table" {
		return cli.PrintValue(cmd.OutOrStdout(), form, append([]inventory.Leftover{}, list...))
	}
	if len(list) == 0 {
		cmd.PrintErrln("no deleted VM has left data")
		return nil
	}
	rows := [][]string{{"VM", "DISK", "SIZE", "STORED", "SOURCE", "FILE"}}
	for _, l := range list {
		for _, d := range l.Disks {
			rows = append(rows, []string{
				l.VM, d.Name, formatBytes(d.Size), formatBytes(d.Stored),
				firstNonEmpty(d.Source, "-"), d.File,
			})
		}
		if l.Others != nil {
			rows = append(rows, []string{l.VM, "-", "-", "-", "-", l.Dir + ": " + strings.Join(l.Others, ", ")})
		}
	}
	err = cli.Table(cmd.OutOrStdout(), rows)
	cmd.PrintErrln("remove the data of a deleted VM by: vmrunner delete NAME --disks")
	return err
}

func newDiskCreate(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create NAME [DISK…]", Short: "Create the missing disks of a VM",
		Long: "Create the missing disks of a VM now instead of at its first start: from their images,\n" +
			"which are fetched if needed, or empty. A disk needs a size or a source in the\n" +
			"configuration.",
		Args: cli.Arguments(1, -1), ValidArgsFunction: f.completeDisk,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.checkingInventory(cmd)
			if err != nil {
				return err
			}
			shown := cli.NewProgress(cmd)
			var which []string
			if len(args) > 1 {
				which = args[1:]
			}
			made, err := all.MakeDisks(cmd.Context(), args[0], which, imageProgress(shown))
			shown.End()
			for _, d := range made {
				cmd.PrintErrf("%s: %s, %s\n", cli.Printable(d.Name), cli.Printable(d.File), formatBytes(d.Size))
			}
			if made == nil && err == nil {
				cmd.PrintErrln("no disk needs to be created")
			}
			return err
		},
	}
	return cmd
}

func newDiskImport(f *flags) *cobra.Command {
	var checksum string
	var replace bool
	cmd := &cobra.Command{
		Use: "import NAME DISK SOURCE", Short: "Create a disk from an image",
		Long: "Create a disk of a VM from an image: a file, with a path that begins with / or ./, a URL\n" +
			"or a name. The VM must be stopped. The disk has the configured size, if there is one.",
		Args: cli.Arguments(3, 3), ValidArgsFunction: f.completeDisk,
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := sourceOf(args[2], checksum)
			if err != nil {
				return err
			}
			all, err := f.checkingInventory(cmd)
			if err != nil {
				return err
			}
			shown := cli.NewProgress(cmd)
			made, err := all.ImportDisk(cmd.Context(), args[0], args[1], source, replace, imageProgress(shown))
			shown.End()
			if err != nil {
				return err
			}
			cmd.PrintErrf("%s: %s, %s\n", cli.Printable(made.Name), cli.Printable(made.File), formatBytes(made.Size))
			return nil
		},
	}
	cli.ChecksumFlag(cmd.Flags(), &checksum, "the transferred data")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the disk and all its data if it exists")
	return cmd
}

func newDiskResize(f *flags) *cobra.Command {
	limit := attachTime
	cmd := &cobra.Command{
		Use: "resize NAME DISK SIZE", Short: "Enlarge a disk",
		Long: "Set the size of a disk in the VM's configuration. If the VM is running, the guest sees\n" +
			"the new size when the command returns; otherwise the disk grows at the next start.\n" +
			"Enlarge the partitions in the guest. A disk cannot shrink.",
		Args: cli.Arguments(3, 3), ValidArgsFunction: f.completeDisk,
	}
	cmd.Flags().DurationVar(&limit, "timeout", limit, "`DURATION` to wait for a running VM")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		size, err := vmspec.ParseBytes(args[2])
		if err != nil {
			return cli.UsageError{Err: fmt.Errorf("SIZE %w", err)}
		}
		c, err := f.changeDisk(cmd, args[0], limit, func(
			all *inventory.Inventory, r inventory.DiskRequest,
		) (inventory.DiskChange, error) {
			return all.ResizeDisk(cmd.Context(), r, args[1], size)
		})
		if err != nil {
			return err
		}
		switch name := cli.Printable(args[1]); {
		case !c.Running:
			cmd.PrintErrf("saved: %s has %s when the VM starts\n", name, size)
		case c.Later != "":
			cmd.PrintErrf("saved, but the disk has not grown yet: %s; to restart: vmrunner restart %s\n", cli.Printable(c.Later),
				args[0])
		default:
			cmd.PrintErrf("the guest's disk %s has %s\n", name, size)
		}
		return nil
	}
	return cmd
}

func newDiskExport(f *flags) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "export NAME DISK FILE", Short: "Copy a disk to a file",
		Long: "Copy a disk of a stopped VM to a file in qcow2 or raw format.",
		Args: cli.Arguments(3, 3), ValidArgsFunction: f.completeDisk,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "qcow2" && format != "raw" {
				return cli.UsageError{Err: fmt.Errorf("--format %s: must be qcow2 or raw", cli.Printable(format))}
			}
			to, err := filepath.Abs(args[2])
			if err != nil {
				return err
			}
			all, err := f.openInventory(cmd, nil)
			if err != nil {
				return err
			}
			if err := all.ExportDisk(cmd.Context(), args[0], args[1], to, format); err != nil {
				return err
			}
			cmd.PrintErrln("written:", cli.Printable(to))
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "qcow2", "`FORMAT` of the file: qcow2 or raw")
	cli.CompleteFlag(cmd, "format", "qcow2", "raw")
	return cmd
}

// completeDisk completes NAME DISK, and then files.
func (f *flags) completeDisk(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return f.completeConfigured(cmd, args, word)
	}
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	all, err := f.openInventory(cmd, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	list, _ := all.Disks(cmd.Context(), args[0]) // the verb itself reports the error
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
