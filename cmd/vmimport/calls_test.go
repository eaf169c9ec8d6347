package main

import (
	"testing"

	"github.com/spf13/cobra"

	"vmop/internal/outbound"
	"vmop/test/pages"
)

// The program accepts every call in the documents.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmimport", func() *cobra.Command { return newImportCommand(outbound.Rule{}) }, 5)
}
