package attach

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortPairs(t *testing.T) {
	t.Parallel()
	pairs, err := PortPairs([]string{"22", "8080:80", "0:443"})
	require.NoError(t, err)
	require.Equal(t, []PortPair{{0, 22}, {8080, 80}, {0, 443}}, pairs)
	for _, text := range []string{"", "x", "80:", ":80", "1:2:3", "70000", "80:70000", "-1:80", "80:0"} {
		_, err := PortPairs([]string{text})
		require.ErrorContains(t, err, "use TCP ports", text)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	require.Equal(t, `'/a b/100%%/it'\''s'`, shellWord("/a b/100%/it's"))
}
