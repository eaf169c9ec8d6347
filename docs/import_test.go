package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page lists exactly the reasons for which an import can fail.
func TestReasonsOfImports(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../diskimage/errors.go", nil, 0)
	require.NoError(t, err)
	var reasons []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.Equal(t, spec.Names[0].Name, value)
			reasons = append(reasons, value)
		}
		return true
	})
	require.Greater(t, len(reasons), 20)
	require.ElementsMatch(t, reasons, slices.Collect(maps.Keys(rows(t, "tasks/import.md"))))
}
