package prepare

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The error for damaged ports of network cards names the file to remove.
func TestDamagedPortsOfCards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cards, err := ReadCards(dir)
	require.NoError(t, err)
	require.Empty(t, cards)
	require.NoError(t, KeepCards(dir, []CardPlace{{MAC: "52:54:00:00:00:01", Place: 3}}))
	cards, err = ReadCards(dir)
	require.NoError(t, err)
	require.Equal(t, []CardPlace{{MAC: "52:54:00:00:00:01", Place: 3}}, cards)
	require.NoError(t, os.WriteFile(filepath.Join(dir, cardsFile), []byte("[{"), 0o600))
	_, err = ReadCards(dir)
	require.ErrorContains(t, err, "remove "+filepath.Join(dir, cardsFile))
}
