package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/compare"
	"vmop/authoring/lint"
)

// between compares the text between two marks of a page with the text that is generated from the code.
func between(t *testing.T, page, mark, want string) {
	t.Helper()
	text := read(t, page)
	before, rest, found := strings.Cut(text, "<!-- "+mark+" -->\n")
	require.True(t, found)
	got, after, found := strings.Cut(rest, "<!-- /"+mark+" -->")
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+"<!-- "+mark+" -->\n"+want+"<!-- /"+mark+" -->"+after),
			0o644))
		return
	}
	require.Equal(t, want, got, "make generate writes it anew")
}

// The page explains each meaning of a change with the program's text.
func TestMeaningsOfChangesAreCurrent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	level := compare.Level(-1)
	for _, m := range compare.Meanings() {
		e := m.Explain()
		if e.Level != level {
			level = e.Level
			fmt.Fprintf(&b, "\n## %s\n", level)
		}
		fmt.Fprintf(&b, "\n### `%s`: %s\n\n%s\n\n*What to do:* %s\n", m, e.Title, e.Effect, e.Advice)
	}
	between(t, "vm-types/compare.md", "meanings", b.String()+"\n")
}

// The page explains each rule with the program's text and with the examples that test it.
func TestRulesAreCurrent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, r := range lint.Rules() {
		fmt.Fprintf(&b, "\n## %s\n\n%s", r.Name, r.Reason)
		if r.AsksQEMU {
			b.WriteString(" *Asks QEMU.*")
		}
		b.WriteString("\n")
		if r.Bad != "" {
			fmt.Fprintf(&b, "\n```python\n# not so\n%s```\n\n```python\n# but so\n%s```\n", r.Bad, r.Good)
		}
	}
	between(t, "vm-types/lint.md", "rules", b.String()+"\n")
}
