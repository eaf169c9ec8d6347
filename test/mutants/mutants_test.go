package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		require.NotEqual(t, source, string(m.mutate([]byte(source))))
	}
	require.Equal(t, []string{
		"f.go:4:5 f: a < b -> !(a < b)", "f.go:4:7 f: < -> <=", "f.go:5:3 f: a++ -> ", "f.go:7:2 f: b = a + 1 -> ",
		"f.go:7:8 f: + -> -", "f.go:8:2 f: g() -> ", "f.go:11:9 f: err -> nil",
	}, got)
	require.Equal(t, strings.Replace(source, "a < b", "a <= b", 1), string(all[1].mutate([]byte(source))))
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

// write writes the files of a module, and changes to its folder.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// A mutant is caught by a test that fails or does not end, and survives a test that passes.
func TestTrial(t *testing.T) {
	for equal, want := range map[string]string{"1": "1 of 1 caught", "2": "0 of 1 caught"} {
		write(t, map[string]string{
			"go.mod": "module m\n\ngo 1.26\n",
			"m.go":   "package m\n\nfunc Less(a, b int) bool { return a < b }\n",
			"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestLess(t *testing.T) {\n" +
				"\tif Less(" + equal + ", 1) {\n\t\tt.Fail()\n\t}\n}\n",
		})
		var out strings.Builder
		err := runMutants(t.Context(), []string{"."}, &out)
		require.Contains(t, out.String(), want)
		require.Contains(t, out.String(), "measured\tm\tits tests and their build take ")
		require.Equal(t, equal == "1", err == nil)
	}
}

// The tests have a time limit, after which their child processes end as well.
func TestTimeOut(t *testing.T) {
	write(t, map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"m.go":   "package m\n\nfunc F() {\n}\n",
		"m_test.go": "package m\n\nimport (\n\t\"os/exec\"\n\t\"testing\"\n)\n\nfunc TestF(t *testing.T) {\n" +
			"\tc := exec.Command(\"sleep\", \"1000\")\n\tc.Stdout = t.Output()\n\t_ = c.Run()\n}\n",
	})
	s := &subject{ImportPath: "m", Dir: ".", GoFiles: []string{"m.go"}, TestGoFiles: []string{"m_test.go"}}
	result, _, err := s.runTests(t.Context(), 10*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, isTooSlow, result)
}

// Packages in which tests fail or all tests are heavy are skipped, with the reason.
func TestPackagesThatAreLeftOut(t *testing.T) {
	const test = "package m\n\nimport (\n\t\"testing\"\n\n\t\"vmop/test/guest\"\n)\n\n"
	for text, reason := range map[string]string{
		"package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { t.Fail() }\n": "its tests fail without a mutant: FAIL\tm",
		test + "func TestF(t *testing.T) { guest.Tiny(t) }\n":                        "all its tests use a guest",
		test + "func boot(t *testing.T) { guest.Tiny(t) }\n\nfunc TestF(t *testing.T) { boot(t) }\n\n" +
			"var g = boot\n\nfunc FuzzF(f *testing.F) { g(nil) }\n": "all its tests use a guest",
		test + "func TestMain(m *testing.M) { guest.Tiny(nil) }\n\nfunc TestF(t *testing.T) {}\n": "all its tests use a guest",
	} {
		write(t, map[string]string{
			"go.mod":    "module m\n\ngo 1.26\n",
			"m.go":      "package m\n\nfunc F(a, b int) bool { return a < b }\n",
			"m_test.go": text,
		})
		var out strings.Builder
		require.NoError(t, runMutants(t.Context(), []string{"."}, &out))
		require.Contains(t, out.String(), "left out\tm\t"+reason)
		require.Contains(t, out.String(), "0 of 0 caught")
	}
}

// A test is heavy if it uses a heavy function or variable.
func TestHeavyTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m_test.go"), []byte(`package m

import "vmop/test/cluster/clustertest"

var shared clustertest.Shared

func use() { shared.Get() }

func TestHeavy() { use() }

func TestHeavyToo() { clustertest.New() }

func TestLight() { x.use() }
`), 0o600))
	skip, others, err := (&subject{Dir: dir, TestGoFiles: []string{"m_test.go"}}).heavyTests()
	require.NoError(t, err)
	require.True(t, others)
	require.Equal(t, "^(TestHeavy|TestHeavyToo)$", skip)
}

// An interrupted run continues: mutants in the log are not tried again.
func TestResume(t *testing.T) {
	t.Parallel()
	all, err := mutantsOf("f.go", []byte(source))
	require.NoError(t, err)
	log := filepath.Join(t.TempDir(), "log")
	text := isLeftOut + "\tvmop/x\tits tests fail without a mutant\n"
	for i, m := range all[:3] {
		text += []string{isCaught, isRefused, hasSurvived}[i] + "\t" + m.String() + "\n"
	}
	require.NoError(t, os.WriteFile(log, []byte(text), 0o600))
	var out strings.Builder
	again := &trial{out: &out, known: map[string]string{}}
	file, err := again.resumeFrom(log)
	require.NoError(t, err)
	defer file.Close()
	require.EqualError(t, again.tryMutants(t.Context(), all, 2),
		"1 of 2 mutants survived: write tests, or list mutants that "+
			"need none in test/mutants/equivalent.txt")
	require.Equal(t, "1 of 2 caught\n", out.String())
	require.Equal(t, isLeftOut, again.known["vmop/x"])
	written, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, text+"1 of 2 caught\n", string(written))
}
