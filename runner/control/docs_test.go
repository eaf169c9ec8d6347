package control

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// The page about the interface documents every request and every metric.
func TestTheInterfaceIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/control.md")
	require.NoError(t, err)
	page := string(text)
	for request := range (&Server{}).allHandlers() {
		require.Contains(t, page, "\n| `"+request+"` |")
	}
	exported := string(metricsText(status.Status{}, sample{}))
	for line := range strings.Lines(exported) {
		if rest, found := strings.CutPrefix(line, "# TYPE "); found {
			require.Contains(t, page, "\n| `"+strings.Fields(rest)[0]+"` |")
		}
	}
	_, table, _ := strings.Cut(page, "\n## Metrics\n")
	for line := range strings.Lines(table) {
		if row, found := strings.CutPrefix(line, "| `"); found {
			name, _, _ := strings.Cut(row, "`")
			require.Contains(t, exported, "# TYPE "+name+" ", "alerts may use it")
		}
	}
}
