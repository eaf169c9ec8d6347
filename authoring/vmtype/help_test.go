package vmtype

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program vmtype, called without the verb, shows the help of "vmrunner vmtype" instead of vmrunner.
func TestHelpOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {}, {"vmtype", "--help"}} {
		var out strings.Builder
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs(args)
		require.NoError(t, root.Execute())
		require.Contains(t, out.String(), "\n  vmrunner vmtype [command]\n", args)
	}
}
