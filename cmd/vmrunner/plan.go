package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/prepare"
	"vmop/vmtypes"
	"vmop/vmtypes/policy"
)

func newPlan(f *flags) *cobra.Command {
	var form string
	var why, confinement bool
	cmd := &cobra.Command{
		Use:   "plan [NAME]",
		Short: "Print what would be done to run the VM, without doing it",
		Long: "plan prints the launch plan: QEMU's arguments, helper processes, files, taps, and\n" +
			"what can change while the VM is running. It starts nothing, changes nothing and needs\n" +
			"no privileges. With --why each argument shows the line of the VM type that made it,\n" +
			"and the calls that led there. -o argv prints one argument per line. --confinement\n" +
			"prints what QEMU and its helpers may use of the host; with --why, each with the\n" +
			"argument that needs it.",
		Args:    oneName,
		GroupID: groupFile, ValidArgsFunction: f.completeConfigured,
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
			for _, w := range vm.Warnings {
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
				return errors.Join(cli.PrintConfinement(cmd.OutOrStdout(), vm.Confinement(), form, why), err)
			}
			return errors.Join(cli.PrintPlan(cmd.OutOrStdout(), vm.Plan, form, why), err)
		},
	}
	cli.PlanFlags(cmd, &form, &why)
	cmd.Flags().BoolVar(&confinement, "confinement", false, "print what the processes may use of the host")
	return cmd
}

// prepareBy returns by what the VM is prepared that the flags name.
func (f *flags) prepareBy(limits *policy.Policy) prepare.Options {
	return prepare.Options{ConfigFile: f.config, VMTypes: f.types.Folder, Policy: limits}
}
