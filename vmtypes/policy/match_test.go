package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Only switches, numbers and sizes are inert. A value that only begins like a number may name a file.
func TestInertValues(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"", "on", "off", "yes", "no", "true", "false", "auto", "0", "12", "-1", "1.5", "4G",
		"512M", "1KiB", "y", "n", "0x1f", "0xAF", "-0x1",
	} {
		require.True(t, isInert(value), value)
	}
	for _, value := range []string{
		"0x", "0x/etc/passwd", "0xg", "0x1f/../x", "/1", "1/2", "./1", "../1", "1:2", "1,2", "G", "M1", ".5", "--1",
		"-", "-/x",
		"127.0.0.1", "1.2.3", "::1", "ON", "on/x", "1e3/x", "12 ", "fd:1", "4Gx",
	} {
		require.False(t, isInert(value), value)
	}
}
