package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
)

// sometimes is a test that fails in its first runs, which it counts in a file.
const sometimes = `package a

import (
	"os"
	"testing"
)

func TestSometimes(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		ran, _ := os.ReadFile("ran")
		_ = os.WriteFile("ran", append(ran, '.'), 0o600)
		if len(ran) < FAILS {
			t.Error("not at time", len(ran))
		}
	})
}

func TestAlways(t *testing.T) { t.Parallel() }
`

// The real go test runs in a separate module, and the summary is as expected.
func TestFlaky(t *testing.T) {
	tier.Deep(t)
	always := strings.Replace(sometimes, "FAILS", "1000", 1)
	once := strings.Replace(sometimes, "FAILS", "1", 1)
	twoFlaky := []string{
		"FLAKY: TestSometimes in m/a", "FLAKY: TestSometimes in m/b", "\n2 passed, 0 failed, 0 skipped, 4 flaky\n",
	}
	tests := []struct {
		what    string
		files   map[string]string
		says    []string // in this order
		known   string   // the list, with @ for today
		lenient bool     // not in CI
		fails   string
	}{
		{
			what:  "a test that fails once is flaky, and seen",
			files: map[string]string{"a": once},
			says: []string{
				"not at time 0", "FAIL\tm/a", "a second time", "ok  \tm/a",
				"FLAKY: TestSometimes in m/a failed, then passed.", "not at time 0",
				"--- FAIL: TestSometimes", "\n1 passed, 0 failed, 0 skipped, 2 flaky\n",
			},
		},
		{
			what:  "in CI three unknown ones are failures",
			files: map[string]string{"a": once, "b": once, "c": once},
			says: []string{
				"FLAKY: TestSometimes in m/a", "FLAKY: TestSometimes in m/c",
				"3 passed, 0 failed, 0 skipped, 6 flaky\n",
			},
			fails: "go test: flaky: m/a TestSometimes is not in test/report/flaky.txt; m/b TestSometimes is not in " +
				"test/report/flaky.txt; m/c TestSometimes is not in test/report/flaky.txt",
		},
		{
			what:  "elsewhere they are none",
			files: map[string]string{"a": once, "b": once, "c": once},
			says: []string{
				"FLAKY: TestSometimes in m/a", "FLAKY: TestSometimes in m/b",
				"3 passed, 0 failed, 0 skipped, 6 flaky\n",
			},
			lenient: true,
		},
		{
			what:  "nor known ones",
			files: map[string]string{"a": once, "b": once},
			known: "@ m/a TestSometimes\n@ m/b TestSometimes\n",
			says:  twoFlaky,
		},
		{
			what:  "but not for ever",
			files: map[string]string{"a": once},
			known: "2026-01-01 m/a TestSometimes\n",
			says:  []string{"FLAKY: TestSometimes in m/a", "2 flaky\n"},
			fails: "go test: flaky: m/a TestSometimes since 2026-01-01, more than 30 days",
		},
		{
			what:  "a test that fails again has failed",
			files: map[string]string{"a": strings.Replace(sometimes, "FAILS", "2", 1)},
			says:  []string{"not at time 0", "a second time", "not at time 1", "\n1 passed, 2 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what:  "more than a few failures are no accident",
			files: map[string]string{"a": once, "b": once, "c": once, "d": once, "e": once, "f": once},
			says:  []string{"6 passed, 12 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what: "nor is a program that a test has stopped",
			files: map[string]string{
				"a": once,
				"b": "package b\n\nimport \"testing\"\n\nfunc TestPanic(t *testing.T) { panic(\"oh\") }\n",
			},
			says:  []string{"\n1 passed, 3 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what: "nor one that fails when its tests have ended",
			files: map[string]string{
				"a": once,
				"b": "package b\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { m.Run(); " +
					"os.Exit(1) }\n\nfunc TestPasses(t *testing.T) {}\n",
			},
			says:  []string{"\n2 passed, 2 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what:  "nor one that does not compile",
			files: map[string]string{"a": once, "b": "package b\n\nvar x y\n"},
			says:  []string{"undefined: y", "\n1 passed, 2 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what:  "what always fails runs only twice",
			files: map[string]string{"a": always},
			says:  []string{"not at time 0", "not at time 1", "\n1 passed, 2 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.26\n")
			for folder, text := range tt.files {
				fill(t, filepath.Join(dir, folder, folder+"_test.go"),
					strings.Replace(text, "package a", "package "+folder, 1))
			}
			t.Chdir(dir)
			var out strings.Builder
			list, err := readKnown(strings.ReplaceAll(tt.known, "@", time.Now().Format(time.DateOnly)))
			require.NoError(t, err)
			r := &report{out: &out, strict: !tt.lenient, known: list, family: &family{}, env: os.Environ()}
			err = r.runAll(t.Context(), [][]string{{"-timeout=20s", "./..."}})
			if tt.fails == "" {
				require.NoError(t, err, out.String())
			} else {
				require.EqualError(t, err, tt.fails, out.String())
			}
			rest := out.String()
			for _, text := range tt.says {
				_, after, found := strings.Cut(rest, text)
				require.True(t, found, "%q is not in the rest of:\n%s", text, out.String())
				rest = after
			}
			written, _ := os.ReadFile("build/flakes.jsonl")
			if strings.Contains(strings.Join(tt.says, ""), "FLAKY") {
				require.Contains(t, string(written), `"package":"m/a","test":"TestSometimes"`)
				return
			}
			require.NotContains(t, out.String(), "FLAKY")
			require.Empty(t, written)
		})
	}
}

func fill(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// A test runs again with the flags of the first run, except those that select tests.
func TestAlone(t *testing.T) {
	t.Parallel()
	f := failure{name: name{"m/a", "TestX"}}
	require.Equal(t,
		[]string{"-race", "-timeout=20m", "-run=^Test", "-count=1", "-run=^(TestX)$", "m/a"},
		f.repeatArguments([]string{"-race", "-timeout=20m", "-run=^Test", "./...", "m/b"}))
}

// Only the failed subtests of a test run again.
func TestPattern(t *testing.T) {
	t.Parallel()
	for want, failed := range map[string][]string{
		"^(TestX)$":                      {"TestX"},
		"^(TestX)$/^(a)$/^(b|c\\.1)$":    {"TestX/a/b", "TestX/a/c.1", "TestX/a", "TestX"},
		"^(TestX)$/^(a|d)$":              {"TestX/a/b", "TestX/a", "TestX/d", "TestX"},
		"^(TestX)$/^(a|d)$/^(b|e_f#01)$": {"TestX/a/b", "TestX/a", "TestX/d/e_f#01", "TestX/d", "TestX"},
	} {
		r := newResult()
		for _, test := range failed {
			r.recordFailure(name{"m/a", test}, "")
		}
		require.Equal(t, want, r.failures[0].runPattern())
	}
}

// The list in the tree is valid and within its bounds.
func TestKnown(t *testing.T) {
	t.Parallel()
	_, err := readKnown(flakyList)
	require.NoError(t, err)
	for list, want := range map[string]string{
		"2026-01-31 vmop/runner":               `"2026-01-31 vmop/runner" is not DATE PACKAGE TEST`,
		"31.1.2026 a T":                        `cannot parse "31.1.2026"`,
		strings.Repeat("2026-01-31 a T\n", 19): "",
		func() (list string) {
			for i := range 11 {
				list += fmt.Sprintf("2026-01-31 a T%d\n", i)
			}
			return list
		}(): "flaky.txt has 11 tests, more than 10",
	} {
		if _, err := readKnown(list); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
