package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of go test -json; see "go doc test2json". The lines of
// actions that begin with "build-" speak of a package that is being compiled and
// have ImportPath in place of Package.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// counts says how many tests, subtests included, ended in which way.
type counts struct {
	passed, failed, skipped int
}

// report reads the events of one go test and writes the readable form.
func report(events io.Reader, out io.Writer) (counts, error) {
	var c counts
	outputs := map[[2]string]string{} // of unfinished tests, by package and test
	for lines := json.NewDecoder(events); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return c, fmt.Errorf("read the events of go test: %w", err)
		}
		key := [2]string{e.Package, e.Test}
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Test == "" && e.Action == "output":
			if e.Output != "PASS\n" {
				outputs[key] += e.Output
			}
		case e.Test == "":
			finishPackage(out, e, outputs)
		case e.Action == "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				outputs[key] += e.Output
			}
		default:
			c.finishTest(out, e, outputs[key])
			if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
				delete(outputs, key)
			}
		}
	}
	_, err := fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	return c, err
}

func (c *counts) finishTest(out io.Writer, e event, output string) {
	switch e.Action {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
		fmt.Fprint(out, output)
	case "skip":
		c.skipped++
		fmt.Fprint(out, output)
	}
}

// finishPackage prints go test's line for a package, before it the output of
// tests that never ended because the program stopped: by a panic, by running out
// of time.
func finishPackage(out io.Writer, e event, outputs map[[2]string]string) {
	if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
		return
	}
	var unfinished [][2]string
	for key := range outputs {
		if key[0] == e.Package && key[1] != "" {
			unfinished = append(unfinished, key)
		}
	}
	slices.SortFunc(unfinished, func(a, b [2]string) int { return strings.Compare(a[1], b[1]) })
	for _, key := range append(unfinished, [2]string{e.Package, ""}) {
		fmt.Fprint(out, outputs[key])
		delete(outputs, key)
	}
}
