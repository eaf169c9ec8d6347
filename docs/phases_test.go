package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/vm/decide"
	"vmop/vmstatus"
)

// The pages contain the programs' explanations of reasons.
func TestMeaningsOfReasonsAreCurrent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| Reason | Meaning |\n|---|---|\n")
	for _, e := range vmstatus.Explanations {
		fmt.Fprintf(&b, "| %s | %s |\n", namesOf(e), fromReference(e.Meaning))
	}
	between(t, "reference/status.md", "reasons", b.String())

	b.Reset()
	b.WriteString("| Phase | Reason | What to do |\n|---|---|---|\n")
	for _, e := range decide.Explanations {
		advice := cmp.Or(fromReference(e.Advice), "Nothing. The reason is transient, or the result of a request.")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Phases, namesOf(e), advice)
	}
	between(t, "reference/kubernetes.md", "phases", b.String())
}

func namesOf(e vmstatus.Explanation) string {
	names := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		names[i] = "`" + string(r) + "`"
	}
	return strings.Join(names, ", ")
}

// fromReference returns a text whose links, which are relative to docs, lead from docs/reference.
func fromReference(text string) string {
	text = strings.ReplaceAll(text, "](", "](../")
	return strings.ReplaceAll(text, "](../reference/", "](")
}

// Each reason of a phase, of a VM type's condition and of a runner has an explanation.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for _, e := range slices.Concat(vmstatus.Explanations, decide.Explanations) {
		for _, r := range e.Reasons {
			explained[string(r)] = true
		}
	}
	of := section(t, "reference/kubernetes.md", "When it doesn't run")
	conditions := section(t, "reference/virtual-machines.md", "status")
	for reason := range reasons(t, "vmstatus/reason.go") {
		require.True(t, explained[reason], reason)
	}
	for reason := range reasons(t, "manager/vm/decide/phase.go") {
		require.True(t, explained[reason] || strings.Contains(of, "`"+reason+"`"), reason)
	}
	for reason := range reasons(t, "manager/vm/decide/verdict.go") {
		require.Contains(t, conditions, "`"+reason+"`")
	}
}

// Each reason of the manager's resources is in a page of the reference, or in the page of the resource's tasks.
func TestReasonsOfResourcesAreDocumented(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, page := range slices.Concat(glob(t, "reference/*.md"), glob(t, "tasks/*.md")) {
		text.WriteString(read(t, page))
	}
	found := 0
	var missing []string
	for _, file := range slices.Concat(glob(t, "../manager/*/*.go"), glob(t, "../manager/vm/*/*.go")) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for reason := range reasonsOf(t, file) {
			found++
			if !strings.Contains(text.String(), "`"+reason+"`") {
				missing = append(missing, file+": "+reason)
			}
		}
	}
	require.Greater(t, found, 100)
	require.Empty(t, missing)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return files
}

// reasons returns the values of the constants of reasons in a file that has some.
func reasons(t *testing.T, file string) map[string]bool {
	t.Helper()
	found := reasonsOf(t, filepath.Join("..", file))
	require.NotEmpty(t, found, file)
	return found
}

// reasonsOf returns the values of the constants of reasons in a file.
func reasonsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	found := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "reason") || len(spec.Values) == 0 {
			return true
		}
		literal, is := spec.Values[0].(*ast.BasicLit)
		if is {
			value, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			found[value] = true
		}
		return true
	})
	return found
}

// section returns the text below a heading of the second level.
func section(t *testing.T, file, title string) string {
	t.Helper()
	for _, s := range strings.Split(read(t, file), "\n## ") {
		if strings.HasPrefix(s, title+"\n") {
			return s
		}
	}
	require.Fail(t, "there is no section "+title, file)
	return ""
}
