package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/pages"
)

// What the documents have readers type is taken.
func TestCallsInDocuments(t *testing.T) {
	t.Parallel()
	all, err := pages.All("../..")
	require.NoError(t, err)
	count, err := pages.Check(all, "vmimport", newCommand)
	require.NoError(t, err)
	require.Greater(t, count, 5)
}
