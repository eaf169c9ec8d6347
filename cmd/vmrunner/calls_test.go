package main

import (
	"testing"

	"github.com/spf13/cobra"

	"vmop/test/pages"
)

// What the documents have readers type is taken.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmrunner", func() *cobra.Command { return newRunnerCommand() }, 150)
}
