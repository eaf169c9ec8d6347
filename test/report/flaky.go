package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Up to mostFlaky failures may have nothing to do with each other or with the code;
// each must then pass repeats times.
const mostFlaky, repeats = 3, 2

// The budget: two flaky tests per run may be new, and three may be known at a time, each
// for mostDays.
const mostNew, mostKnown, mostDays = 2, 3, 30

//go:embed flaky.txt
var flakyList string

// known are the tests of flaky.txt, with the date on which each was first seen.
type known map[name]time.Time

// readKnown reads lines "DATE PACKAGE TEST"; those that begin with # are comments.
func readKnown(list string) (known, error) {
	all := known{}
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(words) != 3 {
			return nil, fmt.Errorf("flaky.txt: %q is not DATE PACKAGE TEST", strings.TrimSpace(line))
		}
		date, err := time.Parse(time.DateOnly, words[0])
		if err != nil {
			return nil, fmt.Errorf("flaky.txt: %w", err)
		}
		all[name{words[1], words[2]}] = date
	}
	if len(all) > mostKnown {
		return nil, fmt.Errorf("flaky.txt has %d tests, more than %d: repair some", len(all), mostKnown)
	}
	return all, nil
}

// mayBeFlaky reports whether nothing but a few tests has failed.
func (r *result) mayBeFlaky() bool {
	return len(r.wrecked) == 0 && len(r.failures) > 0 && len(r.failures) <= mostFlaky
}

// repeat runs each failed test again, alone, with the flags of args. The error is that
// of the first that fails again.
func (r *result) repeat(ctx context.Context, out io.Writer, args []string) error {
	for _, f := range r.failures {
		for range repeats {
			again, err := test(ctx, out, f.alone(args))
			if err != nil {
				return err
			}
			if again.passed == 0 {
				return fmt.Errorf("%s %s did not run again", f.pkg, f.test)
			}
		}
	}
	return nil
}

// alone returns the arguments of go test that run only this test, and of its subtests only those that have failed; the
// last of two equal flags counts.
func (f failure) alone(args []string) []string {
	var only []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			only = append(only, arg)
		}
	}
	return append(only, "-count=1", "-run="+f.pattern(), f.pkg)
}

// pattern matches the subtests that have failed, as deep as all of them are, as go test -run takes it.
func (f failure) pattern() string {
	depth, levels := 1, [][]string{{regexp.QuoteMeta(f.test)}}
	for i, leaf := range f.leaves {
		names := strings.Split(leaf, "/")
		if i == 0 {
			depth = len(names)
		}
		depth = min(depth, len(names))
		for level, name := range names {
			if level == len(levels) {
				levels = append(levels, nil)
			}
			if quoted := regexp.QuoteMeta(name); !slices.Contains(levels[level], quoted) {
				levels[level] = append(levels[level], quoted)
			}
		}
	}
	var all []string
	for _, names := range levels[:depth] {
		all = append(all, "^("+strings.Join(names, "|")+")$")
	}
	return strings.Join(all, "/")
}

// forgive counts the failures as flaky and prints them. The error says that the budget
// of flaky tests is exceeded.
func (r *result) forgive(out io.Writer, list known, today time.Time) error {
	r.failed, r.flaky = 0, r.failed
	slices.SortFunc(r.failures, func(a, b failure) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.test, b.test))
	})
	var unknown, overdue []string
	for _, f := range r.failures {
		fmt.Fprintf(out, "\nFLAKY: %s in %s failed, then passed %d times alone. It needs repair. Its output was:\n%s",
			f.test, f.pkg, repeats, f.output)
		seen, listed := list[f.name]
		switch {
		case !listed:
			unknown = append(unknown, f.pkg+" "+f.test)
		case today.Sub(seen) > mostDays*24*time.Hour:
			overdue = append(overdue, fmt.Sprintf("%s %s since %s", f.pkg, f.test, seen.Format(time.DateOnly)))
		}
	}
	fmt.Fprintln(out)
	if len(unknown) > 0 {
		r.note = "not in test/report/flaky.txt: " + strings.Join(unknown, ", ")
	}
	switch {
	case len(overdue) > 0:
		return fmt.Errorf("flaky for more than %d days: %s", mostDays, strings.Join(overdue, ", "))
	case len(unknown) > mostNew:
		return fmt.Errorf("%d new flaky tests in one run, more than %d", len(unknown), mostNew)
	}
	return nil
}
