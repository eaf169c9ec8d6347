package cli

import "github.com/spf13/cobra"

// CompleteFlag makes shells complete a flag's value from a list.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	list := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, list); err != nil {
		panic(err) // there is no such flag
	}
}

// CompleteFolder makes shells complete a flag's value with folders.
func CompleteFolder(cmd *cobra.Command, flag string) {
	folders := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, folders); err != nil {
		panic(err) // there is no such flag
	}
}

// CompleteFile makes shells complete a flag's value with files of some endings.
func CompleteFile(cmd *cobra.Command, flag string, endings ...string) {
	files := cobra.FixedCompletions(endings, cobra.ShellCompDirectiveFilterFileExt)
	if err := cmd.RegisterFlagCompletionFunc(flag, files); err != nil {
		panic(err) // there is no such flag
	}
}
