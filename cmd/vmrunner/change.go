package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/yamlfile"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

func newSet(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set NAME PATH=VALUE...",
		Short: "Change values of a VM's configuration",
		Long: "Set values in the configuration of a VM, with the paths of the configuration reference.\n" +
			"Comments and the other values stay. The result is checked before it is saved, and set\n" +
			"prints which changes take effect immediately and which need a restart.",
		Example: "  vmrunner set web vm.bootMenu=true\n  vmrunner set web vm.options.watchdog=reset",
	}
	f.oneVM(cmd)
	cmd.Args = cli.Arguments(2, -1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.changeConfiguration(cmd, args[0], args[1:])
	}
	return cmd
}

func newResize(f *flags) *cobra.Command {
	var cpus int
	var ram string
	cmd := &cobra.Command{
		Use:   "resize NAME [--cpus NUMBER] [--ram SIZE]",
		Short: "Change the CPUs or RAM of a VM",
		Long: "Set vm.currentCpus and vm.currentRam. A running guest changes immediately, if its drivers\n" +
			"support it, up to vm.maximumCpus and vm.maximumRam. A larger size also raises the\n" +
			"maximum, which needs a restart.",
		Example: "  vmrunner resize web --cpus 4 --ram 8GiB",
	}
	f.oneVM(cmd)
	cmd.Flags().IntVar(&cpus, "cpus", 0, "`NUMBER` of CPUs")
	cmd.Flags().StringVar(&ram, "ram", "", "`SIZE` of memory, such as 8GiB")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := vmspec.Spec{CurrentCPUs: cpus}
		switch {
		case !cmd.Flags().Changed("cpus") && ram == "":
			return cli.UsageError{Err: errors.New("what size? give --cpus, --ram or both")}
		case cmd.Flags().Changed("cpus") && cpus < 1:
			return cli.UsageError{Err: fmt.Errorf("--cpus %d: must be at least 1", cpus)}
		case ram != "":
			var err error
			if given.CurrentRAM, err = vmspec.ParseBytes(ram); err != nil {
				return cli.UsageError{Err: fmt.Errorf("--ram %w", err)}
			}
		}
		all, err := f.openInventory(cmd, nil)
		if err != nil {
			return err
		}
		vm, err := all.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return f.changeConfiguration(cmd, args[0], sizeSettings(vm.Spec(), given))
	}
	return cmd
}

// sizeSettings returns the settings that give a VM another size. The maximum follows if it is too small.
func sizeSettings(now, given vmspec.Spec) (list []string) {
	if given.CurrentCPUs != 0 {
		list = append(list, "vm.currentCpus="+strconv.Itoa(given.CurrentCPUs))
		if given.CurrentCPUs > now.MaximumCPUs {
			list = append(list, "vm.maximumCpus="+strconv.Itoa(given.CurrentCPUs))
		}
	}
	if given.CurrentRAM != 0 {
		list = append(list, "vm.currentRam="+given.CurrentRAM.String())
		if given.CurrentRAM > now.MaximumRAM {
			list = append(list, "vm.maximumRam="+given.CurrentRAM.String())
		}
	}
	return list
}

// changeConfiguration applies settings of the form path=value to the text of a configuration, and saves it.
func (f *flags) changeConfiguration(cmd *cobra.Command, name string, settings []string) error {
	all, err := f.checkingInventory(cmd)
	if err != nil {
		return err
	}
	before, err := all.Text(cmd.Context(), name)
	if err != nil {
		return err
	}
	section, err := inventory.SectionOf(before)
	if err != nil {
		return err
	}
	text := before
	for _, setting := range settings {
		path, value, found := strings.Cut(setting, "=")
		if !found || path == "" {
			return cli.UsageError{Err: fmt.Errorf("%s: must be PATH=VALUE, such as vm.bootMenu=true",
				cli.Printable(setting))}
		}
		if text, err = yamlfile.Edit(text, value, append([]string{section}, pathKeys(path)...)...); err != nil {
			return fmt.Errorf("set %s: %w", cli.Printable(path), err)
		}
	}
	review, err := all.Edit(cmd.Context(), name, before, text)
	if err != nil {
		return err
	}
	tellReview(cmd, name, review)
	return nil
}

// pathKeys splits a path such as vm.drives[1].file into keys and indices.
func pathKeys(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func newCD(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cd", Short: "Change the medium in a CD drive", Args: cli.NoArguments,
		Long: "Change the medium in a CD drive of a VM, even while the VM is running.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.UsageError{Err: errors.New("usage: vmrunner cd insert NAME MEDIUM, or vmrunner cd eject NAME")}
		},
	}
	insert := "Insert a medium: the path of a file, or a URL. If the VM is running, its drive contains the\n" +
		"medium when the command returns. If QEMU can't use the file, the configuration is\n" +
		"restored: a confined QEMU can open only files in the folders of the media that the VM was\n" +
		"started with."
	eject := "Eject the medium. If the VM is running, its drive is empty when the command returns."
	cmd.AddCommand(f.newMedium("insert NAME MEDIUM", "Insert a medium", insert, 2),
		f.newMedium("eject NAME", "Eject the medium", eject, 1))
	return cmd
}

func (f *flags) newMedium(use, short, long string, arguments int) *cobra.Command {
	drive, limit := -1, attachTime
	cmd := &cobra.Command{Use: use, Short: short, Long: long + "\nA VM with several CD drives needs --drive."}
	f.oneVM(cmd)
	cmd.Args = cli.Arguments(arguments, arguments)
	cmd.Flags().IntVar(&drive, "drive", -1, "`INDEX` of the drive in vm.drives, from 0 (default the only CD drive)")
	cmd.Flags().Lookup("drive").DefValue = "0" // pflag would show -1
	cmd.Flags().DurationVar(&limit, "timeout", limit, "`DURATION` that the guest may take to open the tray")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit <= 0 {
			return cli.UsageError{Err: fmt.Errorf("--timeout %s: must be more than 0", limit)}
		}
		r := inventory.MediumRequest{VM: args[0], Limit: limit}
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		vm, err := all.Find(cmd.Context(), r.VM)
		if err != nil {
			return err
		}
		if arguments > 1 {
			if r.File, err = absoluteMedium(args[1]); err != nil {
				return cli.UsageError{Err: err}
			}
		}
		if r.Drive, err = chooseCDDrive(vm, drive); err != nil {
			return err
		}
		return changeMedium(cmd, all, r)
	}
	return cmd
}

// changeMedium changes a medium, and prints the result.
func changeMedium(cmd *cobra.Command, all *inventory.Inventory, r inventory.MediumRequest) error {
	shown := cli.NewProgress(cmd)
	r.Tell = shown.Show
	c, err := all.ChangeMedium(cmd.Context(), r)
	shown.End()
	printWarnings(cmd, c.Warnings)
	if err != nil {
		return err
	}
	now := "the drive is empty"
	if r.File != "" {
		now = "the drive contains " + cli.Printable(r.File)
	}
	switch {
	case !c.Running:
		cmd.PrintErrln("saved:", now, "when the VM starts")
	case c.Later != "":
		cmd.PrintErrf("saved, but the drive is unchanged: %s; to restart: vmrunner restart %s\n", cli.Printable(c.Later), r.VM)
	default:
		cmd.PrintErrln(now)
	}
	return nil
}

// chooseCDDrive returns the index of the CD drive that the user means; -1 means the only CD drive.
func chooseCDDrive(vm *inventory.VM, wanted int) (int, error) {
	var places []int
	if vm.Config != nil {
		for i, drive := range vm.Config.VM.Drives {
			if drive.Type == vmspec.DriveIDECD && (wanted < 0 || wanted == i) {
				places = append(places, i)
			}
		}
	}
	switch {
	case len(places) == 1:
		return places[0], nil
	case wanted >= 0:
		return 0, cli.UsageError{Err: fmt.Errorf("--drive %d: %s has no CD drive there", wanted, vm.Name)}
	case len(places) == 0:
		return 0, fmt.Errorf("%s has no CD drive; add one with {type: ide-cd} to vm.drives: vmrunner edit %[1]s", vm.Name)
	}
	return 0, cli.UsageError{Err: fmt.Errorf("which drive? %s has CD drives at %v: give --drive", vm.Name, places)}
}

func newClone(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clone NAME NEW",
		Short: "Create a VM from another VM",
		Long: "Create the VM NEW with a copy of the configuration and disks of NAME, and its own uuid and\n" +
			"hardware addresses. A running guest continues. Its file systems are frozen for a moment\n" +
			"if it has an agent; without an agent, the copy is like after a power failure.",
		Example: "  vmrunner clone web web-copy",
	}
	f.oneVM(cmd)
	cmd.Args = cli.Arguments(2, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.cloneVM(cmd, args[0], args[1]) }
	return cmd
}

// cloneVM creates a VM from a snapshot of another VM, which it removes afterwards.
func (f *flags) cloneVM(cmd *cobra.Command, name, to string) (err error) {
	all, err := f.checkingInventory(cmd)
	if err != nil {
		return err
	}
	if slices.Contains(all.Names(), to) {
		return fmt.Errorf("clone %s: %s: %w", name, to, inventory.ErrExists)
	}
	shown := cli.NewProgress(cmd)
	defer shown.End()
	of, err := all.CreateSnapshot(cmd.Context(), name, "", true, copyProgress(shown))
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, all.RemoveSnapshot(context.WithoutCancel(cmd.Context()), name, of.Name))
	}()
	file, err := all.CloneSnapshot(cmd.Context(), name, of.Name, to, copyProgress(shown))
	if err != nil {
		return err
	}
	shown.End()
	cmd.PrintErrf("%s is created from %s (%s): %s\n", to, name, of.Consistency(), cli.Printable(file))
	return nil
}

func newDescribe(f *flags) *cobra.Command {
	cmd := newStatus(f)
	cmd.Use, cmd.Short = "describe NAME", "Show everything about a VM"
	cmd.Long = "Show the status of a VM with its conditions, as \"vmrunner status -o wide\" does."
	cmd.Flags().Lookup("output").DefValue = "wide"
	if err := cmd.Flags().Set("output", "wide"); err != nil {
		panic(err) // cannot happen: the value is valid
	}
	return cmd
}
