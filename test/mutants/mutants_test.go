package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const source = `package p

func f(a, b int) (err error) {
	if a < b {
		a++
	}
	b = a + 1
	g()
	log.Info("x")
	_ = b
	return err
}
`

func TestMutants(t *testing.T) {
	t.Parallel()
	all, err := mutantsOf("f.go", []byte(source))
	require.NoError(t, err)
	var got []string
	for _, m := range all {
		got = append(got, m.String())
		require.NotEqual(t, source, string(m.apply([]byte(source))))
	}
	require.Equal(t, []string{
		"f.go:4:5 f: a < b -> !(a < b)", "f.go:4:7 f: < -> <=", "f.go:5:3 f: a++ -> ", "f.go:7:2 f: b = a + 1 -> ",
		"f.go:7:8 f: + -> -", "f.go:8:2 f: g() -> ", "f.go:11:9 f: err -> nil",
	}, got)
	require.Equal(t, strings.Replace(source, "a < b", "a <= b", 1), string(all[1].apply([]byte(source))))
}

func TestEquivalent(t *testing.T) {
	t.Parallel()
	_, err := readEquivalent(equivalentList)
	require.NoError(t, err)
	known, err := readEquivalent("# a\nf.go f: < -> <= # never equal\n")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"f.go f: < -> <=": true}, known)
	_, err = readEquivalent("f.go f: < -> <=\n")
	require.ErrorContains(t, err, "has no reason")
}

// A test that passes, fails and does not compile with a mutant.
func TestTrial(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.26\n",
		"m.go":      "package m\n\nfunc Less(a, b int) bool { return a < b }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n\tif Less(EQUAL, 1) {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for equal, want := range map[string]string{"1": "1 of 1 caught", "2": "0 of 1 caught"} {
		path := filepath.Join(dir, "m_test.go")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "EQUAL", equal)), 0o600))
		var out strings.Builder
		err = run(t.Context(), []string{"-own", "."}, &out)
		require.Contains(t, out.String(), want)
		require.Equal(t, equal == "1", err == nil)
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
}

// A run continues where it was interrupted: what is in the log isn't tried again.
func TestResume(t *testing.T) {
	t.Parallel()
	all, err := mutantsOf("f.go", []byte(source))
	require.NoError(t, err)
	log := filepath.Join(t.TempDir(), "log")
	text := ""
	for i, m := range all[:3] {
		text += []string{isCaught, isRefused, hasSurvived}[i] + "\t" + m.String() + "\n"
	}
	require.NoError(t, os.WriteFile(log, []byte(text), 0o600))
	var out strings.Builder
	again := &trial{out: &out, known: map[string]string{}}
	file, err := again.resume(log)
	require.NoError(t, err)
	defer file.Close()
	require.EqualError(t, again.try(t.Context(), all, 2), "1 of 2 mutants survived: write tests, or enter what makes no "+
		"difference into test/mutants/equivalent.txt")
	require.Equal(t, "1 of 2 caught\n", out.String())
	written, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, text+"1 of 2 caught\n", string(written))
}
