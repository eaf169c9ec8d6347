package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vmop/internal/cli"
	"vmop/runner/supervisor"
)

// newInit returns the verb init, which has the flags of run.
func newInit(f *flags, run *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Run the VM as the first process of a container",
		Long: "Start \"vmrunner run\" with the same flags, and restart it if it is killed, while the VM\n" +
			"keeps running. init forwards signals, reaps orphaned processes, and exits with the\n" +
			"runner's exit code.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := f.newLogger()
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
			return f.logFinalError(log, err)
		},
	}
	cmd.Flags().AddFlagSet(run.Flags())
	return cmd
}
