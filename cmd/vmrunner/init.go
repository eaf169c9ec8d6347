package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vmop/cli"
	"vmop/runner/supervisor"
)

// newInit returns the verb init, which has the flags of run.
func newInit(f *flags, run *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Run the VM as the first process of a container",
		Long: "init starts \"vmrunner run\" with the same flags, and restarts it if it is killed,\n" +
			"while the VM keeps running. It forwards signals, reaps orphaned processes, and exits\n" +
			"when the runner does, with the same exit code.",
		Args:    cli.NoArguments,
		GroupID: groupFile, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := f.logger()
			if err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			args := []string{"vmrunner", "run"}
			cmd.Flags().Visit(func(flag *pflag.Flag) {
				args = append(args, "--"+flag.Name+"="+flag.Value.String())
			})
			code, err := supervisor.Run(cmd.Context(), supervisor.Spec{Path: exe, Args: args, Log: log})
			if err == nil && code != 0 {
				return cli.ExitError{Code: code}
			}
			return f.logged(log, err)
		},
	}
	cmd.Flags().AddFlagSet(run.Flags())
	return cmd
}
