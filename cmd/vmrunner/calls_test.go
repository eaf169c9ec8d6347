package main

import (
	"testing"

	"github.com/spf13/cobra"

	"vmop/test/pages"
)

// The program accepts every call in the documents.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmrunner", func() *cobra.Command { return newRunnerCommand() }, 150)
}
