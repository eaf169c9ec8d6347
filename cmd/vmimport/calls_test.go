package main

import (
	"testing"

	"github.com/spf13/cobra"

	"vmop/internal/outbound"
	"vmop/test/pages"
)

// What the documents have readers type is taken.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmimport", func() *cobra.Command { return newImportCommand(outbound.Rule{}) }, 5)
}
