package vmtype

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// quoteArguments moves a pattern that looks like a flag behind "--" in the program's arguments, so that "why -device"
// works.
func quoteArguments(args []string, root *cobra.Command) []string {
	at := slices.Index(args, "why")
	if at < 1 || slices.Contains(args, "--") {
		return args
	}
	cmd, _, err := root.Find(args[:at+1])
	if err != nil || cmd.Name() != "why" {
		return args
	}
	for i := at + 1; i < len(args); i++ {
		if len(args[i]) > 1 && args[i][0] == '-' && !isFlag(cmd, args[i]) {
			return append(slices.Delete(slices.Clone(args), i, i+1), "--", args[i])
		}
	}
	return args
}

// isFlag reports whether an argument is a flag of the command.
func isFlag(cmd *cobra.Command, arg string) bool {
	known := false
	see := func(f *pflag.Flag) {
		name, short := "--"+f.Name, "-"+f.Shorthand
		known = known || arg == name || f.Shorthand != "" && arg == short ||
			len(arg) > len(name) && arg[:len(name)+1] == name+"=" ||
			f.Shorthand != "" && len(arg) > 2 && arg[:3] == short+"="
	}
	cmd.InheritedFlags().VisitAll(see)
	cmd.LocalFlags().VisitAll(see)
	return known || arg == "--help" || arg == "-h"
}
