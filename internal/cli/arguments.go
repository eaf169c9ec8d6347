package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/spelling"
)

// NoArguments refuses all arguments except flags and verbs. It suggests verbs with the argument in SuggestFor, or
// with a similar name.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs, meant []string
	for _, verb := range cmd.Commands() {
		if verb.Hidden {
			continue
		}
		verbs = append(verbs, verb.Name())
		if slices.Contains(verb.SuggestFor, args[0]) {
			meant = append(meant, verb.Name())
		}
	}
	if verbs == nil {
		return UsageError{Err: fmt.Errorf("%s takes only flags, not the argument %q", cmd.CommandPath(), args[0])}
	}
	hint := "\"" + cmd.CommandPath() + " help\" lists them"
	if near := spelling.Nearest(args[0], verbs); near != "" && meant == nil {
		meant = []string{near}
	}
	if meant != nil {
		hint = "did you mean " + strings.Join(meant, " or ") + "?"
	}
	return UsageError{Err: fmt.Errorf("there is no verb %q (%s)", args[0], hint)}
}

// Arguments requires a number of arguments from least to most; -1 means any number. Its error shows the usage.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return UsageError{Err: fmt.Errorf("usage: %s %s", cmd.Parent().CommandPath(), cmd.Use)}
	}
}

// AtMostOne makes a command fail if more than one of the flags is given.
func AtMostOne(cmd *cobra.Command, flags ...string) {
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		var given []string
		for _, name := range flags {
			if cmd.Flags().Changed(name) {
				given = append(given, "--"+name)
			}
		}
		if len(given) > 1 {
			return UsageError{Err: errors.New("give one of " + strings.Join(given, ", ") + ", not several")}
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}
