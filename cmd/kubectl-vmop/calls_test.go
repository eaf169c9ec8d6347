package main

import (
	"testing"

	"vmop/test/pages"
)

// The program accepts every call in the documents.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "kubectl vmop", newPluginCommand, 120)
}
