package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes"
)

// An archive from another runner is marked once, contains the same type, and equals the original without the mark.
func TestAReceivedArchiveIsMarked(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	loaded, err := library.Load(t.Context(), "standard")
	require.NoError(t, err)
	own, err := loaded.Archive()
	require.NoError(t, err)
	require.False(t, vmtypes.IsReceived(own))
	require.Equal(t, string(own), string(vmtypes.Unmarked(own)))

	marked := vmtypes.MarkReceived(own)
	require.True(t, vmtypes.IsReceived(marked))
	require.Equal(t, string(marked), string(vmtypes.MarkReceived(marked)))
	require.Equal(t, string(own), string(vmtypes.Unmarked(marked)))
	again, err := vmtypes.LoadArchive(t.Context(), marked)
	require.NoError(t, err)
	require.Equal(t, "standard", again.Name())

	// Only the mark in the comment counts, independent of the rest of the comment.
	for _, text := range []string{"VM type x.star\n", "VM type x.star", "VM type x.star\nAPI version 1\n\n\n", ""} {
		require.True(t, vmtypes.IsReceived(vmtypes.MarkReceived([]byte(text))), "%q", text)
	}
	module := append([]byte("VM type x.star\n-- x.star --\n"), marked...)
	require.False(t, vmtypes.IsReceived(module))
}
