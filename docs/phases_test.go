package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page lists exactly the reasons that the phase of a VM can have.
func TestReasonsOfPhases(t *testing.T) {
	t.Parallel()
	phases := reasons(t, "phase.go")
	ofTypes := reasons(t, "verdict.go")
	page := section(t, "reference/kubernetes.md", "When it doesn't run")
	for reason := range phases {
		require.Contains(t, page, "`"+reason+"`", "of manager/vm/decide/phase.go")
	}
	conditions := section(t, "reference/virtual-machines.md", "status")
	for reason := range ofTypes {
		require.Contains(t, conditions, "`"+reason+"`", "of manager/vm/decide/verdict.go")
	}
	maps.Copy(phases, ofTypes)
	others := []string{"Evicted", "NotSeen"} // from the node, and from the resource's definition
	reason := regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	_, table, found := strings.Cut(page, "| Phase |")
	require.True(t, found)
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, name := range reason.FindAllStringSubmatch(cells[2], -1) {
			require.True(t, phases[name[1]] || slices.Contains(others, name[1]), "no VM has the reason %s", name[1])
		}
	}
}

// reasons returns the values of the constants with the prefix "Reason" in a file of manager/vm/decide.
func reasons(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "manager", "vm", "decide", file), nil, 0)
	require.NoError(t, err)
	found := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) == 0 {
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
	require.NotEmpty(t, found, file)
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
