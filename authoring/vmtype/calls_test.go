package vmtype

import (
	"testing"

	"github.com/spf13/cobra"

	"vmop/test/pages"
)

// The program accepts all command lines in the documentation.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmrunner vmtype", func() *cobra.Command { return newRoot().Commands()[0] }, 50)
}
