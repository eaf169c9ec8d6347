package yamlfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A syntax error is reported where it begins, not where the parser gave up. The line is omitted if it may contain a
// secret.
func TestSyntaxErrorsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Fault{
		"/Machine:\n  name: [a\n  cpus: 1\n": {
			Line: 2, Column: 3, Message: "the brackets […] are not closed", Source: "  name: [a",
		},
		"/Machine:\n  cpus: *x\n  size: ii\n": {
			Line: 2, Column: 3, Message: "unknown anchor 'x' referenced", Source: "  cpus: *x",
		},
		"/Machine:\n  name: a\n  size: ii\n cpus: 1\n": {
			Line: 4, Column: 2, Message: "neither a key nor the end of the section", Source: " cpus: 1",
			Hint: "is the line indented as those above it?",
		},
		"/Machine:\n  extra:\n    pin: \"12\n    other: 3\n  cpus: 1\n": {
			Line: 3, Column: 5, Message: "the quotes are not closed",
		},
		"/Machine:\n  extra: \"12\n  cpus: 1\n": {
			Line: 2, Column: 3, Message: "the quotes are not closed",
		},
		"/Machine:\n  extra:\n    a: 1\n\n# a comment\n    pin: \"12\n": {
			Line: 6, Column: 5, Message: "the quotes are not closed",
		},
	} {
		_, r := readMachine(t, text)
		var faults Faults
		require.ErrorAs(t, r.Err(), &faults, text)
		want.File = "f.yaml"
		require.Equal(t, Faults{want}, faults, text)
	}
}
