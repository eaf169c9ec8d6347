package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// SetUp gives a program's root command what all programs have alike: a fault of usage is a
// UsageError, the caller prints errors, and "version" and --version print the version, if
// there is one.
func SetUp(root *cobra.Command, version string) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{Err: err} })
	addMan(root)
	if version == "" {
		return
	}
	root.Version = version
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), root.Name(), version)
			return err
		},
	})
}
