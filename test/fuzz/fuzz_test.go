package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A target runs, its failing input is kept, and a crash fails the command.
func TestFuzz(t *testing.T) {
	t.Chdir(t.TempDir())
	const test = "package m\n\nimport \"testing\"\n\nfunc FuzzGood(f *testing.F) {\n" +
		"\tf.Fuzz(func(t *testing.T, text string) {})\n}\n\nfunc FuzzBad(f *testing.F) {\n" +
		"\tf.Fuzz(func(t *testing.T, text string) {\n\t\tif len(text) > 1 {\n\t\t\tt.Fatal(\"oh\")\n\t\t}\n\t})\n}\n"
	require.NoError(t, os.WriteFile("go.mod", []byte("module m\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile("m_test.go", []byte(test), 0o600))
	var out strings.Builder
	require.NoError(t, runFuzz(t.Context(), []string{"-time=3s", "Good"}, &out))
	require.Regexp(t, `^\./\.\.FuzzGood +execs: [1-9].*\n1 targets, 0 failed\n$`, out.String())

	out.Reset()
	require.NoError(t, runFuzz(t.Context(), []string{"-time=3s", "-share=12/2"}, &out))
	require.Regexp(t, `^\./\.\.FuzzGood .*\n1 targets, 0 failed\n$`, out.String())
	require.ErrorContains(t, runFuzz(t.Context(), []string{"-share=1/0"}, io.Discard), "want two numbers")

	out.Reset()
	require.EqualError(t, runFuzz(t.Context(), []string{"-time=1m", "Bad"}, &out), "1 of 1 targets failed")
	require.Contains(t, out.String(), "oh\n")
	kept, err := filepath.Glob("testdata/fuzz/FuzzBad/*")
	require.NoError(t, err)
	require.Len(t, kept, 1)

	require.EqualError(t, runFuzz(t.Context(), []string{"Nothing"}, &out), "there is no target Nothing")
}

// The end of the time is not a failure, but a failure at the end of the time is.
func TestOutOfTime(t *testing.T) {
	t.Parallel()
	const before = "fuzz: elapsed: 3s, execs: 40304 (0/sec), new interesting: 104 (total: 108)\n"
	require.True(t, outOfTime([]byte(before+"--- FAIL: FuzzX (3.20s)\n    context deadline exceeded\nFAIL\nexit status 1\n")))
	require.False(t, outOfTime([]byte(before+"--- FAIL: FuzzX (3.20s)\n    --- FAIL: FuzzX (0.00s)\n"+
		"        x_test.go:1: context deadline exceeded\nFAIL\n")))
	require.False(t, outOfTime([]byte(before+"--- FAIL: FuzzX (3.20s)\n    fuzzing process hung or terminated\nFAIL\n")))
	require.False(t, outOfTime([]byte(before+"PASS\n")))
}
