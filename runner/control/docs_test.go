package control

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// The page that describes the interface has every request and every metric.
func TestTheInterfaceIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/control.md")
	require.NoError(t, err)
	page := string(text)
	for request := range (&Server{}).handlers() {
		require.Contains(t, page, "\n| `"+request+"` |")
	}
	for line := range strings.Lines(string(metrics(status.Status{}, sample{}))) {
		if rest, found := strings.CutPrefix(line, "# TYPE "); found {
			require.Contains(t, page, "\n| `"+strings.Fields(rest)[0]+"` |")
		}
	}
}
