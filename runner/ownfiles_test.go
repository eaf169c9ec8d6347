package runner_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
)

// A VM type can't overwrite the runner's files with a copy, including files that record the kind of a copy.
func TestATypeCopiesOverNoFileOfTheRunner(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare")
	v.write("evil", "VM type evil.star\n")
	require.NoError(t, os.MkdirAll(v.path("data"), 0o700))
	for _, name := range []string{"vmtype.txtar", "machines.txt", "uuid.txt", "./vmtype.txtar", "lock", "ended.json"} {
		v.configure("bare", nil, "options: {copy: {source: PATH/evil, to: "+name+"}}")
		_, err := prepare.Plan(t.Context(), v.options().Options)
		require.ErrorContains(t, err, "is a file that the runner keeps itself", name)
		require.ErrorContains(t, err, "made at bare.star", name)
	}
	v.configure("bare", nil, "options: {copy: {source: PATH/evil, to: mine.fd}}")
	_, err := prepare.Plan(t.Context(), v.options().Options)
	require.NoError(t, err)
}
