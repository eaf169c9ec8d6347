package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"vmop/authoring/share"
	"vmop/internal/cli"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/policy"
	"vmop/vmtypes/signature"
)

func newVendor(f Flags) *cobra.Command {
	v := vendor{folder: f.Folder, policy: f.Policy}
	cmd := &cobra.Command{
		Use:   "vendor [REF...]",
		Short: "Store VM types of a registry in the folder of VM types",
		Long: "Write VM types of registries into the folder --vmtypes, and their references and\n" +
			"digests into " + signature.LockFile + " next to them, so that starting a VM needs no registry. A type\n" +
			"of the same name that was vendored is replaced. Changed files and files of other\n" +
			"origin are kept: in that case no file is written. The type must load without errors.\n\n" +
			"Without REF the files that are missing are fetched again, by their digests. --update fetches\n" +
			"the current versions of the references. --check shows differences from the lock file, and\n" +
			"contacts no registry.\n\n" +
			"With --key, or if the policy of this computer requires signatures for the folder, the types\n" +
			"must be signed. The lock file remembers the key of each type: its later versions must be\n" +
			"signed with it, unless --key names others.\n\n" + registryHelp + "\n\n" + rangeHelp + "\n\n" +
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
	keysFlag(cmd, &v.keys)
	cmd.Flags().BoolVar(&v.check, "check", false, "compare the folder with the lock file; contact no registry")
	cmd.Flags().BoolVar(&v.update, "update", false, "fetch the current versions of the references in the lock file")
	cli.AtMostOne(cmd, "check", "update")
	return cmd
}

// vendor is the state of one call of the verb.
type vendor struct {
	folder        *string
	policy        *string
	registry      registryFlags
	keys          []string
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
	required, err := v.requiredKeys()
	if err != nil {
		return err
	}
	all, err := v.wantedTypes(lock, references)
	if err != nil {
		return err
	}
	var types []share.Taken
	for _, w := range all {
		if from.Keys = required; required == nil {
			from.Keys = w.keys
		}
		t, err := fetchUsable(ctx, from, w.reference, w.image)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(types, func(o share.Taken) bool { return o.Name == t.Name }) {
			return cli.UsageError{Err: fmt.Errorf("two of the references are a type %s", t.Name)}
		}
		types = append(types, t)
	}
	before := slices.Clone(lock.Types)
	if err := lock.Replace(*v.folder, types...); err != nil {
		return err
	}
	return v.printTaken(before, types)
}

// wantedType is a type to fetch.
type wantedType struct {
	reference string // to read
	image     string // for the lock file
	keys      []signature.Key
}

// wantedTypes returns the types with the references, or all types of the lock file.
func (v *vendor) wantedTypes(lock *share.Lock, references []string) (all []wantedType, err error) {
	for _, reference := range references {
		w := wantedType{reference: reference, image: reference}
		for _, t := range lock.Types {
			if sameRepository(t.Image, reference) && w.keys == nil {
				if w.keys, err = t.Keys(); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, w)
	}
	if len(references) > 0 {
		return all, nil
	}
	for _, t := range lock.Types {
		w := wantedType{reference: t.Image, image: t.Image}
		if w.keys, err = t.Keys(); err == nil && !v.update {
			w.reference, err = artifact.Pinned(t.Image, t.Digest)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// sameRepository reports whether two references differ only in tag, digest or range.
func sameRepository(x, y string) bool {
	const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	one, err1 := artifact.Pinned(x, digest)
	other, err2 := artifact.Pinned(y, digest)
	return err1 == nil && err2 == nil && one == other
}

// requiredKeys returns the keys of --key, or those that the policy requires for the folder.
func (v *vendor) requiredKeys() ([]signature.Key, error) {
	if len(v.keys) > 0 {
		return readKeys(v.keys)
	}
	limits, err := policy.Load(*v.policy)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(*v.folder)
	if err != nil {
		return nil, fmt.Errorf("folder of VM types: %w", err)
	}
	return limits.SignersOf(folder), nil
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
	rows := [][]string{{"NAME", "FROM", "DIGEST", "SIGNED BY", "CHANGE"}}
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
		from, signed := t.Image, "-"
		if t.Tag != "" {
			from += " = " + t.Tag
		}
		if t.Proof != nil {
			signed = t.SignedBy.Fingerprint()
		}
		rows = append(rows, []string{t.Name, from, t.Digest, signed, what})
	}
	return cli.Table(v.out, rows)
}
