package vmtype

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/cmd/vmrunner/cli"
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

// noArguments refuses arguments of a verb that takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.UsageError{Err: fmt.Errorf("%s takes no arguments besides flags, got %q", cmd.Name(), args[0])}
	}
	return nil
}

// oneArgument wants one argument, which is described.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.UsageError{Err: fmt.Errorf("%s takes %s; got %d arguments", cmd.Name(), what, len(args))}
		}
		return nil
	}
}

// completeTypes makes shells complete an argument with the names of VM types, and
// with files.
func completeTypes(f Flags) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		list, err := listed(*f.Folder)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // a mistake shows when the command is given
		}
		var words []string
		for _, t := range list {
			words = append(words, t.Name+"\t"+t.Doc)
		}
		return words, cobra.ShellCompDirectiveDefault
	}
}
