package adopt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// A command line matches a process of a plan if it contains all the process's arguments in order and without gaps.
func TestRuns(t *testing.T) {
	t.Parallel()
	planned := plan.Process{Executable: "/usr/bin/swtpm", Args: []plan.Option{
		{Flag: "socket"}, {Flag: "--tpm2"},
	}}
	require.Equal(t, []string{"socket", "--tpm2"}, planned.Argv())
	for line, same := range map[string]bool{
		"/usr/bin/swtpm socket --tpm2":           true,
		"/bin/sh /opt/swtpm socket --tpm2 -more": true,
		"/usr/bin/swtpm socket":                  false,
		"/usr/bin/swtpm --tpm2 socket":           false,
		"/usr/bin/swtpm socket --other --tpm2":   false,
		"":                                       false,
	} {
		require.Equal(t, same, isProcessOf(strings.Split(line, " "), planned), line)
	}
	planned.Args = nil
	require.True(t, isProcessOf([]string{"/opt/swtpm", "--any"}, planned))
	require.False(t, isProcessOf([]string{"/usr/bin/passt"}, planned))
}
