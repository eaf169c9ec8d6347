package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Help fits a terminal that is not much wider than usual.
func TestHelpIsNarrow(t *testing.T) {
	t.Parallel()
	const widest = 100
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long + "\n" + cmd.UsageString()) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, " \n")), widest, "%s --help: %s",
				cmd.CommandPath(), line)
		}
		for _, verb := range cmd.Commands() {
			check(verb)
		}
	}
	check(newCommand())
}

// What is made for run alone is what run is among all verbs.
func TestRunAlone(t *testing.T) {
	t.Parallel()
	usage := func(root *cobra.Command) string {
		run, rest, err := root.Find([]string{"run", "web"})
		require.NoError(t, err)
		require.Equal(t, []string{"web"}, rest)
		return run.Long + run.UsageString()
	}
	require.Equal(t, usage(newCommand()), usage(newCommand("run", "web")))
	require.Less(t, len(newCommand("run", "web").Commands()), 3) // version is another
}
