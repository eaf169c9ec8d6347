package cli

import "github.com/spf13/cobra"

// CompleteFlag makes shells complete a flag's value from a list.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	list := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, list); err != nil {
		panic(err) // the flag doesn't exist
	}
}

// CompleteFolder makes shells complete a flag's value with folders.
func CompleteFolder(cmd *cobra.Command, flag string) {
	folders := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, folders); err != nil {
		panic(err) // the flag doesn't exist
	}
}

// CompleteFile makes shells complete a flag's value with files that have one of the extensions.
func CompleteFile(cmd *cobra.Command, flag string, endings ...string) {
	files := cobra.FixedCompletions(endings, cobra.ShellCompDirectiveFilterFileExt)
	if err := cmd.RegisterFlagCompletionFunc(flag, files); err != nil {
		panic(err) // the flag doesn't exist
	}
}
