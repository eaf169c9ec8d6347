package vmtype

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/internal/filewatch"
	"vmop/vmtypes"
)

// watchFlag adds --watch.
func watchFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "watch", false, "when files change, run what they affect again, until Ctrl-C")
	cmd.MarkFlagsMutuallyExclusive("watch", "junit")
	cmd.MarkFlagsMutuallyExclusive("watch", "output")
}

// A selection selects files of a folder.
type selection func(folder *vmtypestest.Folder, source vmtypes.Source) func(file string) bool

// selectAll selects all files.
func selectAll(*vmtypestest.Folder, vmtypes.Source) func(string) bool {
	return func(string) bool { return true }
}

// affectedBy selects the files that depend on changed files.
func affectedBy(changed []string) selection {
	return func(folder *vmtypestest.Folder, source vmtypes.Source) func(string) bool {
		var names []string
		for _, path := range changed {
			if name, err := filepath.Rel(folder.Dir, path); err == nil {
				names = append(names, name)
			}
		}
		affected := folder.Affected(source, names)
		return func(file string) bool { return affected[file] }
	}
}

// whileWatching runs a round with all files, and another round after each change in the folders, until the context
// ends.
func whileWatching(ctx context.Context, p *page, dirs []string, round func(context.Context, selection) error) error {
	var all []string
	for _, dir := range dirs {
		all = append(all, dir, filepath.Join(dir, sample.Folder))
	}
	w, err := filewatch.New(ctx, slog.New(slog.DiscardHandler), all...)
	if err != nil {
		return err
	}
	selected := selection(selectAll)
	for {
		// Errors of type ExitError have already been reported.
		if err := round(ctx, selected); err != nil && !errors.As(err, new(cli.ExitError)) {
			if ctx.Err() != nil {
				return nil
			}
			p.printLine("%s", p.Red(err.Error()))
		}
		changed, err := nextChange(ctx, w, dirs)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		p.printLine("\n%s", p.Faint("changed: "+cli.Printable(strings.Join(changed, ", "))))
		selected = affectedBy(changed)
	}
}

// nextChange waits for a change of relevant files.
func nextChange(ctx context.Context, w *filewatch.Watch, dirs []string) ([]string, error) {
	for {
		changed, err := w.Wait(ctx)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			folder, err := vmtypestest.Find(dir)
			if err != nil {
				return nil, fmt.Errorf("watch %s: %w", dir, err)
			}
			source, err := vmtypes.ReadSource(dir)
			if err != nil {
				return nil, err
			}
			isAffected := affectedBy(changed)(folder, source)
			for _, file := range append(folder.Samples, moduleNames(source)...) {
				if isAffected(file) {
					return relevantFiles(changed), nil
				}
			}
		}
	}
}

// relevantFiles returns the modules and samples among changed files. It omits other files, such as temporary files of
// editors.
func relevantFiles(changed []string) []string {
	var list []string
	for _, path := range changed {
		switch filepath.Ext(path) {
		case ".star", ".yaml", sample.Suffix:
			list = append(list, path)
		}
	}
	return list
}
