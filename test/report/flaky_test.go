package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sometimes is a test that fails the first times it runs, which it counts in a
// file.
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

// A run of the real go test, in a module of its own: what it says at the end.
func TestFlaky(t *testing.T) {
	always := strings.Replace(sometimes, "FAILS", "1000", 1)
	once := strings.Replace(sometimes, "FAILS", "1", 1)
	tests := []struct {
		what  string
		files map[string]string
		says  []string // in this order
		fails string
	}{
		{
			what:  "a test that fails once is flaky, and seen",
			files: map[string]string{"a": once},
			says: []string{
				"not at time 0", "FAIL\tm/a", "runs again", "ok  \tm/a", "ok  \tm/a",
				"FLAKY: TestSometimes in m/a failed, then passed 2 times alone.", "not at time 0",
				"--- FAIL: TestSometimes", "\n1 passed, 0 failed, 0 skipped, 2 flaky\n",
			},
		},
		{
			what:  "a test that fails again has failed",
			files: map[string]string{"a": strings.Replace(sometimes, "FAILS", "2", 1)},
			says:  []string{"not at time 0", "runs again", "not at time 1", "\n1 passed, 2 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what:  "more than a few failures are no accident",
			files: map[string]string{"a": once, "b": once, "c": once, "d": once},
			says:  []string{"4 passed, 8 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what:  "nor is a program that a test has stopped",
			files: map[string]string{"a": once, "b": "package b\n\nimport \"testing\"\n\nfunc TestPanic(t *testing.T) { panic(\"oh\") }\n"},
			says:  []string{"\n1 passed, 3 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
		{
			what:  "nor one that fails when its tests have ended",
			files: map[string]string{"a": once, "b": "package b\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1) }\n\nfunc TestPasses(t *testing.T) {}\n"},
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
			what:  "what always fails runs again only once",
			files: map[string]string{"a": always},
			says:  []string{"not at time 0", "not at time 1", "\n1 passed, 2 failed, 0 skipped\n"},
			fails: "go test: exit status 1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.26\n")
			for folder, text := range tt.files {
				write(t, filepath.Join(dir, folder, folder+"_test.go"), strings.Replace(text, "package a", "package "+folder, 1))
			}
			t.Chdir(dir)
			var out strings.Builder
			err := run(t.Context(), &out, []string{"-timeout=20s", "./..."}, true)
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
			if strings.Contains(strings.Join(tt.says, ""), "FLAKY") {
				return
			}
			require.NotContains(t, out.String(), "FLAKY")
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// A test runs again with the flags of the first run, but those that choose tests.
func TestAlone(t *testing.T) {
	t.Parallel()
	f := failure{name: name{"m/a", "TestX"}}
	require.Equal(t,
		[]string{"-race", "-timeout=20m", "-run=^Test", "-count=1", "-run=^TestX$", "m/a"},
		f.alone([]string{"-race", "-timeout=20m", "-run=^Test", "./...", "m/b"}))
}
