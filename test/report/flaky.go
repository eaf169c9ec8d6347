package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Up to mostFlaky failures in one run may be unrelated to each other and to the code. Up to mostKnown tests may be
// listed as flaky, each for mostDays. In CI, up to mostNew flaky tests of a run may be missing from the list.
const mostFlaky, mostKnown, mostDays, mostNew = 5, 10, 30, 2

//go:embed flaky.txt
var flakyList string

// known contains the tests of flaky.txt, with the date on which each was first flaky.
type known map[name]time.Time

// readKnown reads lines "DATE PACKAGE TEST". Lines that begin with # are comments.
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

// mayBeFlaky reports whether only a few tests have failed.
func (r *result) mayBeFlaky() bool {
	return len(r.wrecked) == 0 && len(r.failures) > 0 && len(r.failures) <= mostFlaky
}

// repeatFailed runs each failed test once more, with the flags of args, while every processor is busy: a test that
// fails under load must not pass without it. It returns the error of the first test that fails again.
func (r *report) repeatFailed(ctx context.Context, first *result, args []string) error {
	busy, rest := context.WithCancel(ctx)
	defer rest()
	for range runtime.NumCPU() {
		go func() {
			for busy.Err() == nil {
			}
		}()
	}
	for _, f := range first.failures {
		again, err := r.runGoTest(ctx, f.repeatArguments(args))
		if err != nil {
			return err
		}
		if again.passed == 0 {
			return fmt.Errorf("%s %s did not run again", f.pkg, f.test)
		}
	}
	return nil
}

// repeatArguments returns arguments of go test that run only this test, and only its failed subtests. If a flag occurs
// twice, go test uses the last one.
func (f failure) repeatArguments(args []string) []string {
	var only []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			only = append(only, arg)
		}
	}
	return append(only, "-count=1", "-run="+f.runPattern(), f.pkg)
}

// runPattern returns a pattern for go test -run that matches the failed subtests, down to the depth of the least
// nested.
func (f failure) runPattern() string {
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

// forgiveFlaky counts the failures as flaky, prints them, and logs them. The error names the tests that the list does
// not excuse.
func (r *report) forgiveFlaky(first *result, today time.Time) error {
	first.failed, first.flaky = 0, first.failed
	slices.SortFunc(first.failures, func(a, b failure) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.test, b.test))
	})
	log, err := openLog("flakes.jsonl")
	if err != nil {
		return err
	}
	defer log.Close() // each line has already been written
	var unknown, inexcusable []string
	for _, f := range first.failures {
		fmt.Fprintf(r.out, "\nFLAKY: %s in %s failed, then passed. It needs repair. Its output was:\n%s", f.test, f.pkg,
			f.output)
		writeLine(log, flake{Time: today, Package: f.pkg, Test: f.test, Load: loadAverage(), Output: f.output})
		seen, listed := r.known[f.name]
		switch {
		case !listed && r.strict:
			unknown = append(unknown, f.pkg+" "+f.test+" is not in test/report/flaky.txt")
		case listed && today.Sub(seen) > mostDays*24*time.Hour:
			inexcusable = append(inexcusable, fmt.Sprintf("%s %s since %s, more than %d days", f.pkg, f.test,
				seen.Format(time.DateOnly), mostDays))
		}
	}
	fmt.Fprintln(r.out)
	if len(unknown) > mostNew {
		inexcusable = append(unknown, inexcusable...)
	}
	if len(inexcusable) > 0 {
		return fmt.Errorf("flaky: %s", strings.Join(inexcusable, "; "))
	}
	return nil
}
