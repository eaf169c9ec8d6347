package control

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// The page that describes the interface has every request, every member of the
// status, every condition and every metric.
func TestTheInterfaceIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/control.md")
	require.NoError(t, err)
	page := string(text)
	for request := range (&Server{}).handlers() {
		require.Contains(t, page, "\n| `"+request+"` |")
	}
	of := reflect.TypeFor[status.Status]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		require.Contains(t, page, "`"+name+"`")
	}
	for _, c := range status.Derive(status.Status{}) {
		require.Contains(t, page, "\n| `"+string(c.Type)+"` |")
	}
	for line := range strings.Lines(string(metrics(status.Status{}, sample{}))) {
		if rest, found := strings.CutPrefix(line, "# TYPE "); found {
			require.Contains(t, page, "\n| `"+strings.Fields(rest)[0]+"` |")
		}
	}
}
