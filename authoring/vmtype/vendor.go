package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"vmop/authoring/share"
	"vmop/internal/cli"
	"vmop/vmtypes/artifact"
)

func newVendor(f Flags) *cobra.Command {
	v := vendor{folder: f.Folder}
	cmd := &cobra.Command{
		Use:   "vendor [REF...]",
		Short: "Store VM types of a registry in the folder of VM types",
		Long: "Write VM types of registries into the folder --vmtypes, and their references and\n" +
			"digests into " + share.LockFile + " next to them, so that starting a VM needs no registry. A type\n" +
			"of the same name that was vendored is replaced. Changed files and files of other\n" +
			"origin are kept: in that case no file is written. The type must load without errors.\n\n" +
			"Without REF the files that are missing are fetched again, by their digests. --update fetches\n" +
			"the current versions of the references. --check shows differences from the lock file, and\n" +
			"contacts no registry.\n\n" + registryHelp + "\n\n" +
			"Exit codes: 0 success, 1 failure, or something differs, 2 wrong usage.",
		Example: "  vmrunner vmtype vendor --vmtypes types registry.example.org/types/asset:1.2\n" +
			"  vmrunner vmtype vendor --vmtypes types --check\n" +
			"  vmrunner vmtype vendor --vmtypes types --update && git diff",
		RunE: func(cmd *cobra.Command, args []string) error {
			v.out = cmd.OutOrStdout()
			return v.takeTypes(cmd.Context(), args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	v.registry.addFlags(cmd)
	cmd.Flags().BoolVar(&v.check, "check", false, "compare the folder with the lock file; contact no registry")
	cmd.Flags().BoolVar(&v.update, "update", false, "fetch the current versions of the references in the lock file")
	cli.AtMostOne(cmd, "check", "update")
	return cmd
}

// vendor is the state of one call of the verb.
type vendor struct {
	folder        *string
	registry      registryFlags
	check, update bool
	out           io.Writer
}

func (v *vendor) takeTypes(ctx context.Context, references []string) error {
	lock, err := share.ReadLock(*v.folder)
	if err != nil {
		return err
	}
	switch {
	case len(references) > 0 && (v.check || v.update):
		return cli.UsageError{Err: errors.New("--check and --update are for all types of the lock file: give no reference")}
	case len(references) == 0 && len(lock.Types) == 0:
		return cli.UsageError{Err: fmt.Errorf("there are no vendored types in %s: name one, as "+
			"registry.example.org/types/asset:1.2", *v.folder)}
	case v.check:
		return v.printDifferences(lock)
	}
	from, err := v.registry.openRegistry()
	if err != nil {
		return err
	}
	var types []share.Taken
	add := func(reference, image string) error {
		t, err := fetchUsable(ctx, from, reference, image)
		if err == nil && slices.ContainsFunc(types, func(o share.Taken) bool { return o.Name == t.Name }) {
			err = cli.UsageError{Err: fmt.Errorf("two of the references are a type %s", t.Name)}
		}
		types = append(types, t)
		return err
	}
	for _, reference := range references {
		if err := add(reference, reference); err != nil {
			return err
		}
	}
	for _, t := range lock.Types {
		if len(references) > 0 {
			break
		}
		reference := t.Image
		if !v.update {
			if reference, err = artifact.Pinned(t.Image, t.Digest); err != nil {
				return err
			}
		}
		if err := add(reference, t.Image); err != nil {
			return err
		}
	}
	before := slices.Clone(lock.Types)
	if err := lock.Replace(*v.folder, types...); err != nil {
		return err
	}
	return v.printTaken(before, types)
}

// printDifferences prints the differences between the folder and its lock file.
func (v *vendor) printDifferences(lock *share.Lock) error {
	lines, err := lock.Differences(*v.folder)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if err := cli.WriteLine(v.out, line); err != nil {
			return err
		}
	}
	if len(lines) > 0 {
		return cli.ExitError{Code: exitFailed}
	}
	return nil
}

// printTaken prints the types with their changes.
func (v *vendor) printTaken(before []share.Locked, types []share.Taken) error {
	rows := [][]string{{"NAME", "FROM", "DIGEST", "CHANGE"}}
	for _, t := range types {
		what := "new"
		for _, old := range before {
			switch {
			case old.Name != t.Name:
			case old.Digest == t.Digest:
				what = "unchanged"
			default:
				what = "was " + old.Digest
			}
		}
		rows = append(rows, []string{t.Name, t.Image, t.Digest, what})
	}
	return cli.Table(v.out, rows)
}
