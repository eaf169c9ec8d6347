package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cmd/vmrunner/cli"
	"vmop/runner"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

func newPlan(f *flags) *cobra.Command {
	var form string
	var why bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what would be done to run the VM, without doing it",
		Long: "plan prints the launch plan: QEMU's arguments, helper processes, files, taps, and\n" +
			"what may change while the VM runs. It starts nothing, changes nothing and needs\n" +
			"no rights. With --why each argument shows the line of the VM type that made it,\n" +
			"and the calls that led there. -o argv prints one word a line.",
		Args:    noArguments,
		GroupID: groupFile, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.hasConfig(); err != nil {
				return err
			}
			vm, err := runner.Prepare(cmd.Context(), runner.Options{ConfigFile: f.config, VMTypes: f.vmTypes})
			var faults *vmtypes.FaultsError
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			for _, w := range vm.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			if printErr := printPlan(cmd.OutOrStdout(), vm.Plan, form, why); printErr != nil {
				return printErr
			}
			return err
		},
	}
	cli.OutputFlag(cmd, &form, "text", "argv", "shell", "json")
	cmd.Flags().BoolVar(&why, "why", false, "show where each argument was made")
	return cmd
}

func printPlan(w io.Writer, p *plan.Plan, form string, why bool) error {
	var text string
	switch form {
	case "text":
		text = p.Text()
		if why {
			text = p.Why()
		}
	case "argv":
		text = strings.Join(append([]string{p.QEMU.Executable}, p.QEMU.Argv()...), "\n") + "\n"
	case "shell":
		text = p.Shell()
	case "json":
		b, err := p.JSON()
		if err != nil {
			return err
		}
		text = string(b)
	}
	_, err := io.WriteString(w, text)
	return err
}
