package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestPlacesArePainted(t *testing.T) {
	t.Parallel()
	const text = "# type a#\n    -append a # b  # a.star:3 launch\n"
	require.Equal(t, "# type a#\n    -append a # b  \x1b[36m# a.star:3 launch\x1b[0m\n",
		placesPainted(Paint{on: true}, text))
	require.Equal(t, text, placesPainted(Paint{}, text))
}

func TestFlagsOfPlans(t *testing.T) {
	t.Parallel()
	var form string
	var why bool
	flags := func(cmd *cobra.Command) { PlanFlags(cmd, &form, &why) }
	_, err := run(flags, "-o", "xml")
	require.EqualError(t, err, "-o xml: must be one of text, argv, shell, json")
	_, err = run(flags, "--why")
	require.NoError(t, err)
	require.Equal(t, "text", form)
	require.True(t, why)
}
