package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// timing is a line of build/test-times.jsonl.
type timing struct {
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"` // empty for the whole package
	Action  string  `json:"action"`         // pass, fail or skip
	Seconds float64 `json:"seconds"`        // without the time in which a parallel test waited for others
	Load    string  `json:"load"`           // the machine's load average of the last minute
}

// flake is a line of build/flakes.jsonl.
type flake struct {
	Time    time.Time `json:"time"`
	Package string    `json:"package"`
	Test    string    `json:"test"`
	Load    string    `json:"load"`
	Output  string    `json:"output"`
}

// openLog opens a file below build for appending lines.
func openLog(name string) (*os.File, error) {
	if err := os.MkdirAll("build", 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join("build", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// writeLine appends a line. It ignores errors such as a full disk, which don't change the result of the test.
func writeLine(log io.Writer, line any) { _ = json.NewEncoder(log).Encode(line) }

// loadAverage returns the machine's load average of the last minute, or "" if unknown.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// recordTime records the duration of a test or a package.
func (r *result) recordTime(e event) {
	writeLine(r.times, timing{e.Package, e.Test, e.Action, e.Elapsed, loadAverage()})
	if e.Test != "" {
		r.slow = append(r.slow, slowTest{name{e.Package, e.Test}, e.Elapsed})
	}
}

// slowTest is a test or subtest with its duration in seconds.
type slowTest struct {
	name
	seconds float64
}

// printSlowest prints the slowest tests that took at least slowSeconds.
func printSlowest(out io.Writer, tests []slowTest) {
	const slowSeconds, most = 20, 60
	tests = slices.DeleteFunc(tests, func(t slowTest) bool { return t.seconds < slowSeconds })
	slices.SortStableFunc(tests, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range tests[:min(len(tests), most)] {
		fmt.Fprintf(out, "slow\t%s\t%s\t%.0f s\n", t.pkg, t.test, t.seconds)
	}
}
