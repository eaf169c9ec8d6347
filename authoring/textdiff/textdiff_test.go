package textdiff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/textdiff"
)

func show(hunks []textdiff.Hunk) string {
	var b strings.Builder
	for _, h := range hunks {
		fmt.Fprintf(&b, "%d %d\n", h.Old, h.New)
		for _, l := range h.Lines {
			fmt.Fprintf(&b, "%c%s\n", l.Sign, l.Text)
		}
	}
	return b.String()
}

func TestHunks(t *testing.T) {
	t.Parallel()
	require.Empty(t, textdiff.Hunks("a\nb\n", "a\nb\n"))
	require.Empty(t, textdiff.Hunks("a\nb", "a\nb\n"), "how the last line ends is no difference")
	require.Equal(t, "1 1\n-@@ -1,2 +3,4 @@\n+@@ x\n", show(textdiff.Hunks("@@ -1,2 +3,4 @@\n", "@@ x\n")))
	require.Equal(t, "0 1\n+a\n", show(textdiff.Hunks("", "a")))
	many := strings.Split(strings.Repeat("line\n", 20), "\n")
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	before := strings.Join(many, "\n")
	after := strings.Replace(strings.Replace(before, "2\n", "two\n", 1), "\n17\n", "\n\n17\n", 1)
	require.Equal(t, "1 1\n 0\n 1\n-2\n+two\n 3\n 4\n 5\n15 15\n 14\n 15\n 16\n+\n 17\n 18\n 19\n",
		show(textdiff.Hunks(before, after)))
}
