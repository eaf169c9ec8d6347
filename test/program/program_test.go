package program_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
	"vmop/test/tier"
)

// A project with a program, a test that builds it, and a folder.
const itsTest = `package p

import "testing"
import "project/program"

func TestProgram(t *testing.T) {
	for _, err := range []error{program.Build(t.Context(), t.TempDir(), "project/cmd"), program.LookInto("folder")} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
`

func TestNoOldResultForANewProgram(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := t.TempDir()
	long := time.Now().Add(-time.Hour) // Go caches no result that depends on new files
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		long = long.Add(time.Minute)
		require.NoError(t, os.Chtimes(path, long, long))
	}
	old := func() bool {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", "test", "./p")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.Contains(string(out), "(cached)")
	}
	text, err := os.ReadFile("program.go")
	require.NoError(t, err)
	write("go.mod", "module project\n\ngo 1.26\n")
	write("program/program.go", string(text))
	write("p/p_test.go", itsTest)
	write("p/folder/deep/deeper", "")
	write("part/part.go", "package part\n\nimport _ \"embed\"\n\n//go:embed words/text\nvar Text string\n")
	write("part/words/text", "one")
	write("cmd/main.go", "package main\n\nimport \"project/part\"\n\nfunc main() { print(part.Text) }\n")

	require.False(t, old(), "nothing has run yet")
	require.True(t, old(), "nothing has changed")
	for name, text := range map[string]string{
		"go.mod": "module project\n\ngo 1.25\n",
		"part/part.go": "package part\n\nimport _ \"embed\"\n\n//go:embed words/text\nvar Text string // " +
			"said by the program\n",
		"part/words/text":      "two",
		"p/folder/deep/deeper": "two",
	} {
		write(name, text)
		require.False(t, old(), "%s has changed", name)
	}
	require.True(t, old(), "nothing has changed again")
}

// A program that make has built is copied, as a file or into a folder.
func TestBuiltPrograms(t *testing.T) {
	made, to := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(made, "vmrunner"), []byte("built"), 0o755))
	t.Setenv(program.Folder, made)
	inFolder, named := filepath.Join(to, "vmrunner"), filepath.Join(to, "p")
	for path, file := range map[string]string{to: inFolder, named: named} {
		require.NoError(t, program.Build(t.Context(), path, "vmop/cmd/vmrunner"))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "built", string(text))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o755), info.Mode())
	}
	err := program.Build(t.Context(), to, "vmop/cmd/nothing")
	require.ErrorContains(t, err, "find the sources", "make has not built it")
}

func TestNoSuchProgram(t *testing.T) {
	t.Parallel()
	err := program.Build(t.Context(), t.TempDir(), "vmop/cmd/nothing")
	require.ErrorContains(t, err, "find the sources of vmop/cmd/nothing: ")
	require.ErrorContains(t, err, "cmd/nothing", "what Go says of it")
}
