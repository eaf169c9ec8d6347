package main

import (
	"testing"

	"vmop/test/pages"
)

// What the documents have readers type is taken.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmmanager", newManagerCommand, 10)
}
