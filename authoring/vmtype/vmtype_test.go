package vmtype

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"vmop/test/pages"
)

// A verb after the program's own name results in an error with the correct call.
func TestAVerbAfterTheProgram(t *testing.T) {
	t.Parallel()
	const want = "vmtype is a verb of vmrunner: vmrunner vmtype push"
	assert.EqualError(t, misplacedVerb(newRoot(), []string{"push", "--layout", "out", "types/asset:1"}), want)
	for _, args := range [][]string{nil, {"vmtype", "push"}, {"help", "vmtype"}, {"pish"}} {
		assert.NoError(t, misplacedVerb(newRoot(), args))
	}
}

// Help fits on a narrow terminal.
func TestHelpIsNarrow(t *testing.T) {
	t.Parallel()
	pages.RequireNarrow(t, newRoot())
}
