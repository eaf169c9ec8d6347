package vmtype

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/spelling"
)

// atMostOne rejects more than one argument of a verb.
func atMostOne(verb, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return cli.UsageError{Err: fmt.Errorf("%s takes one argument, %s; got %d", verb, what, len(args))}
		}
		return nil
	}
}

// noArguments rejects arguments of a verb without arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return cli.UsageError{Err: fmt.Errorf("%s takes no arguments, got %q", cmd.Name(), args[0])}
	}
	return nil
}

// oneArgument requires one argument. what describes the argument.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cli.UsageError{Err: fmt.Errorf("%s takes %s; got %d arguments", cmd.Name(), what, len(args))}
		}
		return nil
	}
}

// requireFile requires that a file or folder exists. doing is the operation that needs it. The error contains the
// searched folder and a suggestion.
func requireFile(doing, kind, path string) error {
	_, err := os.Stat(path)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return cli.UsageError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	folder, name := filepath.Dir(path), filepath.Base(path)
	entries, err := os.ReadDir(folder)
	if err != nil && folder != "." {
		return requireFile(doing, "folder", folder)
	}
	var beside []string
	for _, e := range entries {
		if e.IsDir() && strings.Contains(kind, "folder") || !e.IsDir() && strings.Contains(kind, "file") {
			beside = append(beside, e.Name())
		}
	}
	hint := ""
	if near := spelling.Nearest(name, beside); near != "" {
		hint = " (did you mean " + filepath.Join(folder, near) + "?)"
	}
	if at, err := filepath.Abs(folder); err == nil {
		folder = at
	}
	return cli.UsageError{Err: fmt.Errorf("%s: there is no %s %s in %s%s", doing, kind, name, folder, hint)}
}

// completeTypes completes an argument in shells with the names of VM types and of files.
func completeTypes(f Flags) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		list, err := typesIn(*f.Folder)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // the command itself will report errors
		}
		var words []string
		for _, t := range list {
			words = append(words, t.Name+"\t"+t.Doc)
		}
		return words, cobra.ShellCompDirectiveDefault
	}
}
