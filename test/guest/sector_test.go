package guest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
)

func TestSector(t *testing.T) {
	t.Parallel()
	require.NoError(t, guest.RunSector(t.Context(), "tcg"))
	require.ErrorContains(t, guest.RunSector(t.Context(), "no-such-accelerator"), "no-such-accelerator")
}
