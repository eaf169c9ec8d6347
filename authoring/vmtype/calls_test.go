package vmtype

import (
	"testing"

	"github.com/spf13/cobra"

	"vmop/test/pages"
)

// What the documents have readers type is taken.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmrunner vmtype", func() *cobra.Command { return newRoot().Commands()[0] }, 50)
}
