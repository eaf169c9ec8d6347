package main

import (
	"testing"

	"vmop/test/pages"
)

// The program accepts every call in the documents.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	pages.Require(t, "../..", "vmmanager", newManagerCommand, 10)
}
