package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/test/pages"
)

// Help fits a terminal slightly wider than usual.
func TestHelpIsNarrow(t *testing.T) {
	t.Parallel()
	pages.RequireNarrow(t, newRunnerCommand())
}

// The command tree that is built only for run shows the same help for run as the complete tree.
func TestRunAlone(t *testing.T) {
	t.Parallel()
	usage := func(root *cobra.Command) string {
		run, rest, err := root.Find([]string{"run", "web"})
		require.NoError(t, err)
		require.Equal(t, []string{"web"}, rest)
		return run.Long + run.UsageString()
	}
	require.Equal(t, usage(newRunnerCommand()), usage(newRunnerCommand("run", "web")))
	require.Less(t, len(newRunnerCommand("run", "web").Commands()), 3) // version is another verb
}
