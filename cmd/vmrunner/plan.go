package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/plans"
	"vmop/runner/prepare"
	"vmop/vmtypes"
	"vmop/vmtypes/policy"
)

func newPlan(f *flags) *cobra.Command {
	var form string
	var why, confinement bool
	cmd := &cobra.Command{
		Use:   "plan [NAME]",
		Short: "Print the launch plan of a VM without starting it",
		Long: "Print the launch plan: QEMU's arguments, helper processes, files, taps, and what can\n" +
			"change while the VM is running. Nothing is started or changed, and no privileges are\n" +
			"needed.\n\n" +
			"With --why each argument shows the line of the VM type that created it, and the calls\n" +
			"that led there. -o argv prints one argument per line. --confinement prints the host\n" +
			"resources that QEMU and its helpers may use; with --why, each with the argument that\n" +
			"needs it.",
		Args:              oneName,
		ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.takeName(cmd, args); err != nil {
				return err
			}
			limits, err := policy.Load(f.types.Policy)
			if err != nil {
				return err
			}
			vm, err := prepare.Plan(cmd.Context(), f.prepareBy(limits))
			var faults *vmtypes.FaultsError
			var denied *policy.Error
			if err != nil && !errors.As(err, &faults) && !errors.As(err, &denied) {
				return err
			}
			for _, w := range append(vm.Warnings, vm.OptionWarnings()...) {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			faulty, broken := vm.StartFaults()
			if broken != nil {
				return broken
			}
			if missing := vm.Config.Locate(faulty); missing != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: the VM would not start:", cli.Describe(missing))
			}
			for _, note := range vm.Notes() {
				if note.Warning {
					fmt.Fprintln(cmd.ErrOrStderr(), "warning:", note.Text)
				} else if why {
					fmt.Fprintln(cmd.ErrOrStderr(), note.Text)
				}
			}
			if confinement {
				return errors.Join(plans.PrintConfinement(cmd.OutOrStdout(), vm.Confinement(), form, why), err)
			}
			return errors.Join(plans.Print(cmd.OutOrStdout(), vm.Plan, form, why), err)
		},
	}
	plans.AddFlags(cmd, &form, &why)
	cmd.Flags().BoolVar(&confinement, "confinement", false,
		"print the host resources that the processes may use, as text or json")
	return cmd
}

// prepareBy returns the options for preparing the VM that the flags specify.
func (f *flags) prepareBy(limits *policy.Policy) prepare.Options {
	return prepare.Options{ConfigFile: f.config, VMTypes: f.types.Folder, Policy: limits}
}
