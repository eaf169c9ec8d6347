package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every row has a test, and every test has a row.
func TestEveryRowHasATestAndEveryTestARow(t *testing.T) {
	t.Parallel()
	tests := map[int][]string{}
	files := os.DirFS("../..")
	require.NoError(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil || !strings.Contains(string(text), "\nfunc TestFault") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				if number, ok := rowOf(f.Name.Name); ok {
					tests[number] = append(tests[number], path+": "+f.Name.Name)
				}
			}
		}
		return nil
	}))
	for _, r := range matrixRows() {
		if r.later == "" {
			require.NotEmpty(t, tests[r.number], "row %d, %s, has no test", r.number, r.fault)
		} else {
			require.Empty(t, tests[r.number], "row %d has a test: it is not for later", r.number)
		}
		delete(tests, r.number)
	}
	require.Empty(t, tests, "tests of no row")
}

func TestTheMatrix(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"run","Package":"a","Test":"TestFault01Kill"}
		{"Action":"pass","Package":"a","Test":"TestFault01Kill"}
		{"Action":"run","Package":"a","Test":"TestFault02Half"}
		{"Action":"run","Package":"a","Test":"TestFault02Half/one"}
		{"Action":"pass","Package":"a","Test":"TestFault02Half/one"}
		{"Action":"run","Package":"a","Test":"TestFault02Half/two"}
		{"Action":"output","Package":"a","Test":"TestFault02Half/two","Output":"    x_test.go:1: oh\n"}
		{"Action":"fail","Package":"a","Test":"TestFault02Half/two"}
		{"Action":"fail","Package":"a","Test":"TestFault02Half"}
		{"Action":"build-output","ImportPath":"c","Output":"c.go:1: syntax error\n"}
		{"Action":"run","Package":"b","Test":"TestFault04Panic"}
		{"Action":"output","Package":"b","Test":"TestFault04Panic","Output":"panic: no\n"}
		{"Action":"output","Package":"b","Output":"FAIL\tb\t0.1s\n"}
		{"Action":"fail","Package":"b"}`
	rows := []row{
		{1, "one", real, ""},
		{2, "two", real, ""},
		{3, "three", scripted, ""},
		{4, "four", scripted, ""},
		{5, "five", scripted, "not now"},
	}
	var out strings.Builder
	found, err := readEvents(strings.NewReader(events), &out)
	require.NoError(t, err)
	require.Equal(t, 3, showMatrix(&out, rows, found))
	text := out.String()
	for _, line := range []string{
		"row  what goes wrong                                               fault     result\n",
		"    x_test.go:1: oh\n", "c.go:1: syntax error\n", "panic: no\n", "FAIL\tb\t0.1s\n",
		"  1  one                                                           real      passed\n",
		"  2  two                                                           real      FAILED\n",
		"  3  three                                                         scripted  FAILED: it has no test\n",
		"  4  four                                                          scripted  FAILED\n",
		"  5  five                                                          -         later: not now\n",
	} {
		require.Contains(t, text, line)
	}
	require.True(t, strings.HasSuffix(text, "\n1 passed, 3 failed\n"), text)
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	t.Parallel()
	_, err := readEvents(strings.NewReader("go: no such tool\n"), &strings.Builder{})
	require.ErrorContains(t, err, "read the events of go test")
}
