package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vmop/cli"
	"vmop/runner/supervisor"
)

// newInit makes the verb that takes the flags of run.
func newInit(f *flags, run *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Run the VM as the first process of a container",
		Long: "init starts \"vmrunner run\" with the same flags, and starts it again if it is\n" +
			"killed: the VM runs on meanwhile. It hands signals on, collects orphans, and\n" +
			"ends when the runner ends, with the same exit code.",
		Args:    cli.NoArguments,
		GroupID: groupFile, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := f.logger()
			if err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the program of the runner: %w", err)
			}
			args := []string{"vmrunner", "run"}
			cmd.Flags().Visit(func(flag *pflag.Flag) {
				args = append(args, "--"+flag.Name+"="+flag.Value.String())
			})
			code, err := supervisor.Run(cmd.Context(), supervisor.Spec{Path: exe, Args: args, Log: log})
			if err == nil && code != 0 {
				return cli.ExitError{Code: code}
			}
			return f.tell(log, err)
		},
	}
	cmd.Flags().AddFlagSet(run.Flags())
	return cmd
}
