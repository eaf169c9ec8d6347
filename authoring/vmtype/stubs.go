package vmtype

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/authoring/editors"
	"vmop/cli"
)

func newStubs(Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stubs [DIR]",
		Short: "Set up editors for a folder of VM types",
		Long: "stubs writes, into a folder of VM types, by default the current one, what editors need:\n" +
			"__builtins__.pyi, by which those that know Python complete and explain what VM types can\n" +
			"use; and settings for VS Code that start the language server of \"vmrunner vmtype lsp\".\n" +
			"Files of yours are left as they are. docs/vm-types/editors.md has the settings for\n" +
			"other editors.",
		Example: "  vmrunner vmtype stubs types",
		Args:    atMostOne("stubs", "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if err := there("stubs", "folder", dir); err != nil {
				return err
			}
			files, err := editors.Write(dir)
			for _, f := range files {
				if err := cli.WriteLine(cmd.OutOrStdout(), fmt.Sprintf("%-9s  %s", f.Done, f.Path)); err != nil {
					return err
				}
			}
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	return cmd
}
