package vmtype

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/test/pages"
)

// What the documents have readers type is taken.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	all, err := pages.All("../..")
	require.NoError(t, err)
	count, err := pages.Check(all, "vmrunner vmtype", func() *cobra.Command { return newRoot().Commands()[0] })
	require.NoError(t, err)
	require.Greater(t, count, 50)
}
