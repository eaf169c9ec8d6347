package vmtypes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes"
)

// A module of the maximum size and depth results in an error in the evaluating process. A stack overflow would end this
// process.
func TestNestingIsBoundedBySize(t *testing.T) {
	t.Parallel()
	const launch = "def launch(vm, host):\n    return "
	room := vmtypes.MaxModule - len(launch) - 16
	nested := func(open, inner, end string) string {
		n := room / (len(open) + len(end))
		return launch + strings.Repeat(open, n) + inner + strings.Repeat(end, n) + "\n"
	}
	for name, text := range map[string]string{
		"open parentheses": launch + strings.Repeat("(", room) + "\n",
		"parentheses":      nested("(", "1", ")"),
		"lists":            nested("[", "", "]"),
		"calls":            nested("f(", "", ")"),
		"dicts":            nested("{1:", "1", "}"),
		"minus":            nested("-", "1", ""),
		"not":              nested("not ", "1", ""),
		"lambda":           nested("lambda:", "1", ""),
		"sum":              nested("1+", "1", ""),
		"condition":        nested("1 if 1 else ", "1", ""),
		"comprehension":    nested("[", "1", " for x in y]"),
		"fields":           nested("", "vm", ".a"),
		"indices":          nested("", "vm", "[0]"),
		"power":            nested("", "vm", "()"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := vmtypes.Source{Modules: map[string]string{"deep.star": text}}
			vmType, err := source.Library().Load(t.Context(), "deep")
			if err == nil {
				_, err = vmType.Launch(t.Context(), smallVM(), emptyHost())
			}
			require.Error(t, err)
			require.Less(t, len(err.Error()), 10_000)
		})
	}
}
