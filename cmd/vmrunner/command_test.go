package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
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
