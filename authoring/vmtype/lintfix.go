package vmtype

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"vmop/authoring/lint"
	"vmop/internal/atomicfile"
	"vmop/internal/cli"
)

// mostFixes is the maximum number of rounds of --fix. A repair can uncover another finding.
const mostFixes = 8

// lintAndFix checks a path, corrects the files if --fix is set, prints the remaining findings and returns their number.
func (l *linting) lintAndFix(ctx context.Context, path string) (found int, err error) {
	if l.fix {
		if _, err := os.Stat(path); err != nil {
			return 0, fmt.Errorf("--fix: %w", err)
		}
	}
	notes := l.notes
	for round := 1; ; round++ {
		var ofRound bytes.Buffer
		l.notes = &ofRound
		findings, err := l.lintPath(ctx, path)
		l.notes = notes
		fixed := 0
		if l.fix && round <= mostFixes {
			var unfixed error
			fixed, unfixed = l.fixFindings(findings)
			err = errors.Join(err, unfixed)
		}
		if fixed == 0 || err != nil {
			_, unwritten := notes.Write(ofRound.Bytes()) // earlier notes were about the files before their corrections
			return len(findings), errors.Join(unwritten, l.printFindings(findings), err)
		}
	}
}

// fixFindings applies the repairs of findings to their files, and returns the number of corrected findings.
func (l *linting) fixFindings(findings []lint.Finding) (fixed int, err error) {
	files := map[string][]*lint.Repair{}
	for _, f := range findings {
		if f.Repair != nil {
			files[f.File] = append(files[f.File], f.Repair)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		before, err := os.ReadFile(file)
		if err != nil {
			return fixed, fmt.Errorf("--fix: %w", err)
		}
		after, n := lint.Apply(string(before), files[file])
		if n == 0 || after == string(before) {
			continue
		}
		if err := atomicfile.Rewrite(file, []byte(after)); err != nil {
			return fixed, fmt.Errorf("write %s after its corrections: %w", file, err)
		}
		fixed += n
		if _, err := fmt.Fprintf(l.notes, "corrected %s: %d\n", cli.Printable(file), n); err != nil {
			return fixed, err
		}
	}
	return fixed, nil
}
