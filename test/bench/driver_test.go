package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// buildDrivers returns a folder with bare and mark, built in one of the languages.
func buildDrivers(t *testing.T, language string) string {
	t.Helper()
	dir := t.TempDir()
	b := &bench{ctx: t.Context(), dir: dir, cc: "cc"}
	if language == "Go" {
		b.cc = "no-such-compiler"
	}
	var path string
	for _, name := range []string{"bare", "mark"} {
		var made string
		var err error
		path, made, err = b.buildProgram(name)
		require.NoError(t, err)
		require.Equal(t, language, made, "install the package gcc")
	}
	return filepath.Dir(path)
}

// Both drivers start a real QEMU and its swtpm, report when the machine runs, and clean up completely.
func TestDrivers(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"C", "Go"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			bin := buildDrivers(t, language)
			dir, err := os.MkdirTemp("", "x") // short, because it contains a socket
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			tpm := filepath.Join(dir, "tpm")
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "bare"),
				"-t", tpm, dir, "/usr/bin/swtpm", "socket", "--tpm2", "--tpmstate", "dir=.", "--ctrl",
				"type=unixio,fd=3", "--terminate", "--",
				"/usr/bin/qemu-system-x86_64", "-M", "q35", "-nodefaults", "-display", "none", "-accel", "tcg",
				"-chardev", "socket,id=tpm,path="+tpm, "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device",
				"tpm-tis,tpmdev=tpm0")
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			require.NoError(t, cmd.Start(), "install the packages qemu-system-x86 and swtpm")
			line := make([]byte, len("cont\n"))
			_, err = io.ReadFull(stdout, line)
			require.NoError(t, err)
			require.Equal(t, "cont\n", string(line))
			require.NoError(t, stdin.Close())
			rest, err := io.ReadAll(stdout) // ends when the last process that holds it ends
			require.NoError(t, err)
			require.Empty(t, rest)
			require.NoError(t, cmd.Wait(), "%s", &stderr)
		})
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"C", "Go"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(buildDrivers(t, language), "mark")
			before, err := monotonicTime()
			require.NoError(t, err)
			numbers, err := timeMark(exec.CommandContext(t.Context(), mark))
			require.NoError(t, err)
			after, err := monotonicTime()
			require.NoError(t, err)
			require.Positive(t, numbers["time"])
			require.Less(t, numbers["time"], float64(after-before)/1e6)
		})
	}
}
