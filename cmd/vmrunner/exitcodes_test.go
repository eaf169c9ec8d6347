package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/internal/cli"
)

// unknownName is the name of no VM.
const unknownName = "unknown"

// wordValues returns valid values of the words in the usage of verbs.
func wordValues(t *testing.T) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	return map[string]string{
		"NAME": unknownName, "USER@]NAME": unknownName, "TARGET": unknownName + ":/", "NEW": "other", "FILE": file,
		"MEDIUM": file, "SOURCE": file, "DISK": "disk", "SIZE": "1GiB", "NUMBER": "2", "NIC": "network[0]",
		"NETWORK": "user", "SNAPSHOT": "before", "PATH=VALUE": "vm.bootMenu=true", "HOST:]GUEST": "8080:80",
		"COMMAND": "query-status", "{ARGUMENTS}": "{}", "on|off": "on", "up|down": "down",
	}
}

// callOf returns a call of a verb for an unknown VM, according to its usage; nil if the verb is about no VM.
func callOf(verb *cobra.Command, values map[string]string) (args []string) {
	about := false
	for _, word := range strings.Fields(verb.Use)[1:] {
		word = strings.Trim(word, "[].…")
		if value, known := values[word]; known {
			about = about || strings.Contains(value, unknownName)
			word = value
		}
		args = append(args, word)
	}
	if !about {
		return nil
	}
	return args
}

// verbsBelow returns the verbs with an action of their own.
func verbsBelow(cmd *cobra.Command) (list []*cobra.Command) {
	for _, child := range cmd.Commands() {
		if child.HasSubCommands() {
			list = append(list, verbsBelow(child)...)
		} else if child.Runnable() && !child.DisableFlagParsing && !child.Hidden {
			list = append(list, child)
		}
	}
	return list
}

// runCode runs a verb in this process, and returns the exit code of the program and its error.
func runCode(ctx context.Context, path string, args ...string) (int, error) {
	root := newRunnerCommand()
	root.SetArgs(append(strings.Fields(path)[1:], args...))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	err := root.ExecuteContext(ctx)
	return exitCode(err), err
}

// For every verb, an unknown VM is exit code 3, and wrong usage exit code 2.
func TestExitCodesOfAllVerbs(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, t.TempDir())
	}
	values, about := wordValues(t), 0
	for _, verb := range verbsBelow(newRunnerCommand()) {
		path := verb.CommandPath()
		code, err := runCode(t.Context(), path, "--no-such-flag")
		require.Equal(t, cli.ExitUsage, code, "%s --no-such-flag: %v", path, err)
		args := callOf(verb, values)
		if args == nil || slices.Contains([]string{"create", "up"}, verb.Name()) && verb.Parent() == verb.Root() {
			continue // it creates the VM
		}
		about++
		code, err = runCode(t.Context(), path, args...)
		require.Equal(t, exitAbsent, code, "%s %q: %v", path, args, err)
	}
	require.Greater(t, about, 40)
}
