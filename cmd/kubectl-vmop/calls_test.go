package main

import (
	"testing"

	"vmop/test/pages"
)

// What the documents have readers type is taken.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "kubectl vmop", newPluginCommand, 120)
}
