package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlacesArePainted(t *testing.T) {
	t.Parallel()
	const text = "# type a#\n    -append a # b  # a.star:3 launch\n"
	require.Equal(t, "# type a#\n    -append a # b  \x1b[36m# a.star:3 launch\x1b[0m\n",
		placesPainted(Paint{on: true}, text))
	require.Equal(t, text, placesPainted(Paint{}, text))
}
