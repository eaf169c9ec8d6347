package vmtype

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

// The program that has these verbs is called as vmrunner, and says so.
func TestAVerbAfterTheProgram(t *testing.T) {
	t.Parallel()
	const want = "vmtype is a verb of vmrunner: vmrunner vmtype push"
	assert.EqualError(t, misplaced(newRoot(), []string{"push", "--layout", "out", "types/asset:1"}), want)
	for _, args := range [][]string{nil, {"vmtype", "push"}, {"help", "vmtype"}, {"pish"}} {
		assert.NoError(t, misplaced(newRoot(), args))
	}
}

// Help fits a terminal that is not much wider than usual.
func TestHelpIsNarrow(t *testing.T) {
	t.Parallel()
	const widest = 100
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long + "\n" + cmd.UsageString()) {
			width := utf8.RuneCountInString(strings.TrimRight(line, " \n"))
			assert.LessOrEqual(t, width, widest, "%s --help: %s", cmd.CommandPath(), line)
		}
		for _, verb := range cmd.Commands() {
			check(verb)
		}
	}
	check(newRoot())
}
