package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/cli"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "one fault; another; �[31m�", cli.Printable("one fault\nanother\n\x1b[31m\x07\n"))
}
