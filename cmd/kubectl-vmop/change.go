package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/operation/act"
	"vmop/vmspec"
)

func newResize(f *flags) *cobra.Command {
	var form, ram string
	var cpus int64
	var w waiting
	cmd := &cobra.Command{
		Use: "resize NAME [--cpus N] [--ram SIZE]", Short: "Change the CPUs or RAM of the guest", GroupID: groupChange,
		Long: "Set spec.vm.currentCpus and currentRam, up to maximumCpus and maximumRam. A running\n" +
			"guest changes immediately if its drivers support it. To raise a maximum, use kubectl\n" +
			"vmop edit; that needs a restart.",
		Example: "  kubectl vmop resize web --cpus 4 --ram 8Gi --wait",
	}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	cmd.Flags().Int64Var(&cpus, "cpus", 0, "`NUMBER` of CPUs")
	cmd.Flags().StringVar(&ram, "ram", "", "`SIZE` of memory, such as 8Gi")
	w.addFlags(cmd, "the guest has the new size, or the VM isn't running")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var number *int64
		if cmd.Flags().Changed("cpus") {
			number = &cpus
		}
		if number == nil && ram == "" {
			return cli.UsageError{Err: errors.New("what size? give --cpus, --ram or both")}
		}
		if _, err := resource.ParseQuantity(ram); ram != "" && err != nil {
			return cli.UsageError{Err: fmt.Errorf("--ram %s: must be a size such as 8Gi or 512Mi", ram)}
		}
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.resizeVM(cmd, args, number, ram, form, w)
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		patch, err := act.Size(vm, number, ram)
		if err != nil {
			return err
		}
		if vm, err = c.patchVM(ctx, vm.Name, types.MergePatchType, patch); err == nil && w.wait {
			vm, err = c.awaitVM(ctx, vm.Name, hasSize(vm.Generation, number != nil, ram != ""))
		}
		if err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, "resized")
	}
	return cmd
}

// hasSize is the goal of a guest with the CPUs and the RAM of its definition.
func hasSize(generation int64, cpus, ram bool) goal {
	return func(vm *v1.VirtualMachine) (bool, error) {
		switch {
		case vm == nil:
			return false, errors.New("the VM has been deleted meanwhile")
		case vm.Status.ObservedGeneration < generation:
			return false, nil
		case vm.Status.Phase == v1.PhaseStopped:
			return true, nil
		}
		m, s := vm.Spec.VM, vm.Status
		if cpus && (m.CurrentCPUs == nil || s.CPUs != *m.CurrentCPUs) {
			return false, nil
		}
		if !ram || m.CurrentRAM == nil {
			return true, nil
		}
		has, err := resource.ParseQuantity(s.RAM)
		whole := func(q resource.Quantity) int64 { return q.Value() / int64(vmspec.MiB) }
		return err == nil && whole(has) == whole(*m.CurrentRAM), nil
	}
}

func newCD(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cd", Short: "Change the medium in a CD drive", GroupID: groupChange, Args: cli.NoArguments,
		Long: "Change the medium in a CD drive of a VM, even while the VM is running.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.UsageError{Err: errors.New("usage: kubectl vmop cd insert|eject NAME …")}
		},
	}
	const insert = "Insert a medium. IMAGE is a file of the image repository, such as debian.iso, or a URL."
	cmd.AddCommand(f.newMedium("insert NAME IMAGE", "Insert a medium", insert, "inserted", 1),
		f.newMedium("eject NAME", "Eject the medium", "Eject the medium.", "ejected", 0))
	return cmd
}

func (f *flags) newMedium(use, short, long, done string, images int) *cobra.Command {
	var form string
	var drive int
	cmd := &cobra.Command{
		Use: use, Short: short,
		Long: long + "\nA VM with several CD drives needs --drive.",
	}
	f.aVMAnd(cmd, images, images)
	doneFlag(cmd, &form)
	cmd.Flags().IntVar(&drive, "drive", -1, "`INDEX` of the drive in spec.vm.disks, from 0 (default the only CD drive)")
	cmd.Flags().Lookup("drive").DefValue = "0" // pflag would show -1
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, rest := splitName(args)
		image := strings.Join(rest, "")
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.insertMedium(cmd, args, drive, image, form, done)
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		if err := oneDrive(vm, &drive); err != nil {
			return err
		}
		patch, err := act.Medium(vm, drive, image)
		if err != nil {
			return err
		}
		if vm, err = c.patchVM(cmd.Context(), vm.Name, types.JSONPatchType, patch); err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, done)
	}
	return cmd
}

// oneDrive sets drive to the only possible drive if the user has not specified a drive.
func oneDrive(vm *v1.VirtualMachine, drive *int) error {
	return chooseDrive(vm.Name, act.Drives(vm), drive)
}

func chooseDrive(name string, places []int, drive *int) error {
	switch {
	case len(places) == 0:
		return fmt.Errorf("VM %s has no CD drive; a drive without a medium is cdrom: {image: \"\"} in spec.vm.disks", name)
	case *drive < 0 && len(places) == 1:
		*drive = places[0]
	case !slices.Contains(places, *drive):
		texts := make([]string, len(places))
		for i, place := range places {
			texts[i] = fmt.Sprint(place)
		}
		return cli.UsageError{Err: fmt.Errorf("which drive? --drive %s", strings.Join(texts, " or "))}
	}
	return nil
}
