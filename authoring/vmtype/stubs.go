package vmtype

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/authoring/editors"
	"vmop/internal/cli"
)

func newStubs(Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stubs [DIR]",
		Short: "Set up editors for a folder of VM types",
		Long: "Write the files that editors need into a folder of VM types, by default the current one:\n" +
			"__builtins__.pyi, which lets Python editors complete and explain what VM types can\n" +
			"use, and settings for VS Code that start the language server \"vmrunner vmtype lsp\". Your own\n" +
			"files are left unchanged. docs/vm-types/editors.md shows the settings for other editors.",
		Example: "  vmrunner vmtype stubs types",
		Args:    atMostOne("stubs", "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if err := requireFile("stubs", "folder", dir); err != nil {
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
