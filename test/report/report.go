package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"vmop/test/tier"
)

// event is one line of go test -json; see "go doc test2json". Events with the prefix "build-" describe a package that
// is being compiled, and have ImportPath instead of Package.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	// Elapsed is the duration in seconds, without the time in which a parallel test waited for others.
	Elapsed float64
}

// counts are the numbers of tests, including subtests, by result. A flaky test failed, and then passed. A left test
// runs only in make test-all.
type counts struct {
	passed, failed, skipped, flaky, left int
}

// String returns the closing line of a run.
func (c counts) String() string {
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
	if c.flaky > 0 {
		text += fmt.Sprintf(", %d flaky", c.flaky)
	}
	return text
}

func (c *counts) addCounts(other counts) {
	c.passed += other.passed
	c.failed += other.failed
	c.skipped += other.skipped
	c.flaky += other.flaky
	c.left += other.left
}

// result is the result of one go test.
type result struct {
	counts
	failures []failure
	slow     []slowTest
	times    io.Writer // receives each finished test as JSON
	// wrecked lists packages that failed for another reason than a failed test: a compile error, a stopped program, or
	// a time-out.
	wrecked []string
	// unfinished lists tests that were running when their program ended. One of them may be the cause.
	unfinished []name

	outputs map[name]string // of tests and packages that have not ended
	failing map[string]bool // packages with a failed test
	orderly map[string]bool // packages with a program that reported the failure itself
}

// name is the name of a test, or of a package if test is empty.
type name struct{ pkg, test string }

// failure is a top-level test that failed, with its output and the output of its failed subtests.
type failure struct {
	name
	output string
	// leaves are the full names of the failed subtests without failed subtests.
	leaves []string
}

// printSummary prints a line for each test that failed or did not end, because their output may be far above.
func (r *result) printSummary(out io.Writer) {
	for _, f := range r.failures {
		fmt.Fprintf(out, "FAIL\t%s\t%s\n", f.pkg, f.test)
	}
	for _, n := range r.unfinished {
		fmt.Fprintf(out, "FAIL\t%s\t%s did not end\n", n.pkg, n.test)
	}
}

func newResult() *result {
	return &result{
		outputs: map[name]string{}, failing: map[string]bool{}, orderly: map[string]bool{}, times: io.Discard,
	}
}

// readEvents reads the events of one go test and writes them in readable form.
func (r *result) readEvents(events io.Reader, out io.Writer) error {
	for lines := json.NewDecoder(events); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the events of go test: %w", err)
		}
		key := name{e.Package, e.Test}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Test == "" && e.Action == "output":
			r.orderly[e.Package] = r.orderly[e.Package] || e.Output == "FAIL\n"
			if e.Output != "PASS\n" {
				r.outputs[key] += e.Output
			}
		case e.Test == "":
			r.finishPackage(out, e)
		case e.Action == "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				r.outputs[key] += e.Output
			}
		default:
			r.finishTest(out, e, key)
		}
	}
}

func (r *result) finishTest(out io.Writer, e event, key name) {
	output := r.outputs[key]
	switch e.Action {
	case "run", "cont":
		r.outputs[key] = output // it has begun
		return
	case "pause":
		if output == "" {
			delete(r.outputs, key) // it waits for others
		}
		return
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		fmt.Fprint(out, output)
		r.recordFailure(key, output)
	case "skip":
		if strings.Contains(output, tier.Left) {
			r.left++
			break
		}
		r.skipped++
		fmt.Fprint(out, output)
	default:
		return
	}
	r.recordTime(e)
	delete(r.outputs, key)
}

// recordFailure records a failure of a test or subtest.
func (r *result) recordFailure(key name, output string) {
	r.failing[key.pkg] = true
	whole := key.test
	key.test, _, _ = strings.Cut(key.test, "/")
	i := slices.IndexFunc(r.failures, func(f failure) bool { return f.name == key })
	if i < 0 {
		i = len(r.failures)
		r.failures = append(r.failures, failure{name: key})
	}
	f := &r.failures[i]
	f.output += output
	if !slices.ContainsFunc(f.leaves, func(leaf string) bool { return strings.HasPrefix(leaf, whole+"/") }) {
		f.leaves = append(f.leaves, whole)
	}
}

// finishPackage prints go test's line for a package, after the output of tests that did not end because of a panic or a
// time-out.
func (r *result) finishPackage(out io.Writer, e event) {
	if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
		return
	}
	r.recordTime(e)
	if e.Action == "fail" && !(r.failing[e.Package] && r.orderly[e.Package]) {
		r.wrecked = append(r.wrecked, e.Package)
	}
	var unfinished []name
	for key := range r.outputs {
		if key.pkg == e.Package && key.test != "" {
			unfinished = append(unfinished, key)
		}
	}
	slices.SortFunc(unfinished, func(a, b name) int { return strings.Compare(a.test, b.test) })
	if e.Action == "fail" {
		r.unfinished = append(r.unfinished, unfinished...)
	}
	for _, key := range append(unfinished, name{pkg: e.Package}) {
		fmt.Fprint(out, r.outputs[key])
		delete(r.outputs, key)
	}
}
