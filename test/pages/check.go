package pages

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Check returns errors for the calls of a program in pages that the program would refuse: each verb and flag must
// exist, the values of flags must be valid, and the number of arguments must be accepted. program is the typed name,
// such as "kubectl vmop", and root returns its commands. Check does not execute them. count is the number of calls.
func Check(all []Page, program string, root func() *cobra.Command) (count int, err error) {
	words := strings.Fields(program)
	var faults []error
	for _, page := range all {
		commands, err := page.Commands(words[0])
		faults = append(faults, err)
		for _, c := range commands {
			if len(c.Words) <= len(words) || !slices.Equal(c.Words[:len(words)], words) {
				continue
			}
			count++
			if err := commandFault(root(), c.Words[len(words):], c.Mention); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", c.At, strings.Join(c.Words, " "), err))
			}
		}
	}
	return count, errors.Join(faults...)
}

// Require fails a program's test if a page contains a call that the program would refuse, or if all pages contain fewer
// than least calls.
func Require(t testing.TB, project, program string, root func() *cobra.Command, least int) {
	t.Helper()
	all, err := All(project)
	require.NoError(t, err)
	count, err := Check(all, program, root)
	require.NoError(t, err)
	require.Greater(t, count, least)
}

// RequireNarrow fails a program's test if a help text is too wide for a terminal slightly wider than usual.
func RequireNarrow(t testing.TB, cmd *cobra.Command) {
	t.Helper()
	const widest = 100
	for line := range strings.Lines(cmd.Long + "\n" + cmd.UsageString()) {
		width := utf8.RuneCountInString(strings.TrimRight(line, " \n"))
		assert.LessOrEqual(t, width, widest, "%s --help: %s", cmd.CommandPath(), line)
	}
	first, _, _ := strings.Cut(cmd.Long, " ")
	assert.NotEqual(t, cmd.Name(), first, "%s --help begins with its own name", cmd.CommandPath())
	for _, verb := range cmd.Commands() {
		RequireNarrow(t, verb)
	}
}

// commandFault returns an error for invalid arguments of a command. A mention may lack arguments.
func commandFault(root *cobra.Command, args []string, mention bool) error {
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.DisableFlagParsing {
		return err
	}
	if err := cmd.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	args = cmd.Flags().Args()
	if mention && len(args) == 0 {
		return nil
	}
	if err := cmd.ValidateArgs(args); err != nil {
		return err
	}
	if cmd.PreRunE != nil {
		return cmd.PreRunE(cmd, args)
	}
	return nil
}
