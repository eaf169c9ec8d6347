package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// attachTime is how long a guest may take to attach or release a disk.
const attachTime = time.Minute

func newDiskAttach(f *flags) *cobra.Command {
	var d vmspec.Drive
	var size, source, checksum string
	var asRaw bool
	limit := attachTime
	cmd := &cobra.Command{
		Use: "attach NAME [FILE]", Short: "Attach a disk to a VM", SuggestFor: []string{"add"},
		Long: "Attach a disk: an existing image or block device, or a new image (--size, --source).\n" +
			"Without FILE, a new image is created in the VM's data directory. The disk is added to\n" +
			"the configuration, which keeps its comments.\n\n" +
			"If the VM is running, the guest has the disk when the command returns; in a Linux guest\n" +
			"it is /dev/disk/by-id/virtio-SERIAL. If the disk cannot be attached, the configuration\n" +
			"is restored.",
		Example: "  vmrunner disk attach web --size 20GiB --serial data\n" +
			"  vmrunner disk attach web ~/tools.qcow2 --read-only\n" +
			"  vmrunner disk attach web --source debian/12",
		Args: cli.Arguments(1, 2), ValidArgsFunction: f.completeNameAndFile,
	}
	p := cmd.Flags()
	p.StringVar(&size, "size", "", "`SIZE` of the disk, which is created if it doesn't exist, such as 20GiB")
	p.StringVar(&source, "source", "", "`SOURCE` of the disk: a URL, a path, or a name such as debian/12")
	cli.ChecksumFlag(p, &checksum, "the transferred data")
	p.StringVar(&d.Format, "format", "", "disk `FORMAT`: raw or qcow2 (default raw, qcow2 for an existing *.qcow2)")
	p.BoolVar(&asRaw, "as-raw", false, "use FILE as a raw disk even if it contains an image of another format")
	p.StringVar(&d.Serial, "serial", "", "`SERIAL` number that the guest sees (default file name without extension)")
	p.BoolVar(&d.ReadOnly, "read-only", false, "attach the disk read-only")
	p.DurationVar(&limit, "timeout", limit, "`DURATION` that the guest may take to attach the disk")
	cli.CompleteFlag(cmd, "format", "raw", "qcow2")
	if err := cmd.RegisterFlagCompletionFunc("source", completeImages); err != nil {
		panic(err) // cannot happen: the flag exists
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := completeDrive(&d, args[1:], size, source, checksum); err != nil {
			return err
		}
		if asRaw {
			if d.Format == "qcow2" {
				return cli.UsageError{Err: errors.New("--as-raw and --format qcow2 are mutually exclusive")}
			}
			d.Format = "raw"
		}
		c, err := f.changeDisk(cmd, args[0], limit, func(
			all *inventory.Inventory, r inventory.DiskRequest,
		) (inventory.DiskChange, error) {
			r.AsRaw = asRaw
			return all.AttachDisk(cmd.Context(), r, d)
		})
		if err == nil {
			tellAttached(cmd, args[0], c)
		}
		return err
	}
	return cmd
}

// completeDrive completes a drive from the command line.
func completeDrive(d *vmspec.Drive, file []string, size, source, checksum string) (err error) {
	if len(file) == 1 {
		if d.File, err = filepath.Abs(file[0]); err != nil {
			return err
		}
	} else if size == "" && source == "" {
		return cli.UsageError{Err: errors.New("which disk? Specify its FILE, or for a new disk --size or --source")}
	}
	if size != "" {
		if d.Size, err = vmspec.ParseBytes(size); err != nil {
			return cli.UsageError{Err: fmt.Errorf("--size: %w", err)}
		}
	}
	if source == "" {
		if checksum != "" {
			return cli.UsageError{Err: errors.New("--checksum needs --source")}
		}
		return nil
	}
	from, err := sourceOf(source, checksum)
	d.Source, d.SourceChecksum = from.Text, from.Checksum
	return err
}

func tellAttached(cmd *cobra.Command, vm string, c inventory.DiskChange) {
	name := cli.Printable(c.Disk.Name)
	has := "saved: "
	if c.Unchanged {
		has = vm + " has it already: "
	}
	cmd.PrintErrf("%s%s, %s", has, name, cli.Printable(c.Disk.File))
	if c.Disk.Size > 0 {
		cmd.PrintErrf(", %s", formatBytes(c.Disk.Size))
	}
	cmd.PrintErrln()
	switch {
	case !c.Running:
		cmd.PrintErrln("the guest gets it when the VM starts")
	case c.Later != "":
		cmd.PrintErrln("the guest doesn't have it yet:", cli.Printable(c.Later))
	default:
		cmd.PrintErrf("the guest has it; in Linux it is /dev/disk/by-id/virtio-%s\n", name)
	}
}

func newDiskDetach(f *flags) *cobra.Command {
	limit := attachTime
	cmd := &cobra.Command{
		Use: "detach NAME DISK", Short: "Detach a disk from a VM", SuggestFor: []string{"remove", "rm", "delete"},
		Long: "Detach a disk, and remove it from the configuration, which keeps its comments. Its file\n" +
			"is kept.\n\n" +
			"Unmount the disk first: a Linux guest releases even a mounted disk. If the VM is\n" +
			"running, the guest has released the disk when the command returns. Disks that were\n" +
			"present when the VM started stay in the guest until a restart. The boot disk cannot be\n" +
			"detached.",
		Args: cli.Arguments(2, 2), ValidArgsFunction: f.completeNameAndDisk,
	}
	cmd.Flags().DurationVar(&limit, "timeout", limit, "`DURATION` that the guest may take to release the disk")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.changeDisk(cmd, args[0], limit, func(
			all *inventory.Inventory, r inventory.DiskRequest,
		) (inventory.DiskChange, error) {
			return all.DetachDisk(cmd.Context(), r, args[1])
		})
		if err != nil {
			return err
		}
		switch name := cli.Printable(args[1]); {
		case !c.Running:
			cmd.PrintErrf("saved: the VM starts without %s\n", name)
		case c.Later != "":
			cmd.PrintErrf("saved, but the guest still has %s: %s\n", name, cli.Printable(c.Later))
		default:
			cmd.PrintErrf("the guest has released %s\n", name)
		}
		if c.Disk.File != "" {
			cmd.PrintErrln("left:", cli.Printable(c.Disk.File))
		}
		return nil
	}
	return cmd
}

// changeDisk attaches, detaches or enlarges a disk, and shows the reason if it must wait.
func (f *flags) changeDisk(
	cmd *cobra.Command, vm string, limit time.Duration,
	do func(*inventory.Inventory, inventory.DiskRequest) (inventory.DiskChange, error),
) (c inventory.DiskChange, err error) {
	if limit <= 0 {
		return c, cli.UsageError{Err: fmt.Errorf("--timeout %s: must be more than 0", limit)}
	}
	all, err := f.checkingInventory(cmd)
	if err != nil {
		return c, err
	}
	shown := cli.NewProgress(cmd)
	warn := func(text string) { printWarnings(cmd, []string{text}) }
	c, err = do(all, inventory.DiskRequest{VM: vm, Limit: limit, Tell: shown.Show, Warn: warn})
	shown.End()
	return c, err
}

// completeNameAndFile completes NAME FILE.
func (f *flags) completeNameAndFile(
	cmd *cobra.Command, args []string, word string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return f.completeConfigured(cmd, args, word)
}

// completeNameAndDisk completes NAME DISK.
func (f *flags) completeNameAndDisk(
	cmd *cobra.Command, args []string, word string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.completeDisk(cmd, args, word)
}
