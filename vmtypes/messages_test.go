package vmtypes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// Messages that a type alone cannot cause. Other tests cover them.
var elsewhere = []string{
	"module %s must end with a newline", "a module contains a line of the form", "the first line is %q",
	"the archive has no module", "the second line is %q",
	"kept by a newer vmrunner", "not an archive of a VM type", // for archives
	"there is no folder of custom types", "there are more than %d files",
	"there is no such file in", // for folders
	"unhashable",               // for the interpreter
}

// Every message of the engine appears in a golden, so that a reviewer has read it.
func TestEveryMessageIsInAGolden(t *testing.T) {
	t.Parallel()
	goldens := errorTexts(t)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	count := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "compiled.go" {
			continue
		}
		for _, format := range messages(t, file) {
			if known(format) {
				continue
			}
			count++
			require.True(t, pattern(format).MatchString(goldens), "%s: no golden in testdata/errors has the message %q",
				file, format)
		}
	}
	require.Greater(t, count, 30)
}

// errorTexts returns the expected texts of all goldens, joined.
func errorTexts(t *testing.T) string {
	t.Helper()
	archives, err := filepath.Glob("testdata/errors/*.txtar")
	require.NoError(t, err)
	more, err := filepath.Glob("testdata/errors/one/*.txtar")
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range append(archives, more...) {
		archive, err := txtar.ParseFile(path)
		require.NoError(t, err)
		for _, f := range archive.Files {
			if _, text, one := strings.Cut(string(f.Data), "=>\n"); one {
				all.WriteString(text)
			} else if f.Name == "error" {
				all.Write(f.Data)
			}
		}
	}
	return all.String()
}

// messages returns the format strings of the errors in a file.
func messages(t *testing.T, file string) []string {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
	require.NoError(t, err)
	var list []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name, _ := call.Fun.(*ast.SelectorExpr)
		if name == nil || name.Sel.Name != "Errorf" && name.Sel.Name != "New" {
			return true
		}
		if text, ok := call.Args[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
			format, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			list = append(list, format)
		}
		return true
	})
	return list
}

// known reports whether another test covers a message, or whether the message only wraps another message.
func known(format string) bool {
	for _, text := range elsewhere {
		if strings.Contains(format, text) {
			return true
		}
	}
	return strings.HasSuffix(format, ": %w") // the wrapped error is a separate message
}

// pattern returns an expression that matches all texts of a format.
func pattern(format string) *regexp.Regexp {
	verbs := regexp.MustCompile(`%(\\.\d+)?[a-z]`)
	return regexp.MustCompile(verbs.ReplaceAllString(regexp.QuoteMeta(format), `.*`))
}
