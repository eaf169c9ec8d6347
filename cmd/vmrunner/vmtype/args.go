package vmtype

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/cmd/vmrunner/cli"
	"vmop/vmtypes"
)

// atMostOne refuses more than one argument of a verb.
func atMostOne(verb, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return cli.UsageError{Err: fmt.Errorf("%s takes one argument, %s; got %d", verb, what, len(args))}
		}
		return nil
	}
}

// completeTypes makes shells complete an argument with the names of VM types, and
// with files.
func completeTypes(f Flags) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		library, err := vmtypes.Open(*f.Folder)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // a mistake shows when the command is given
		}
		defer func() { _ = library.Close() }() // it was only read
		return library.Names(), cobra.ShellCompDirectiveDefault
	}
}
