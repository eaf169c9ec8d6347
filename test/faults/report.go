package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// event is one line of go test -json; see "go doc test2json".
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// results are the results of each row's tests, by row number.
type results map[int]*result

type result struct{ passed, failed int }

// readEvents reads the events of go test. For failed tests and failed builds it prints the output.
func readEvents(events io.Reader, out io.Writer) (results, error) {
	found := results{}
	outputs := map[[2]string]string{} // of tests that have not passed, by package and test
	for lines := json.NewDecoder(events); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the events of go test: %w", err)
		}
		key := [2]string{e.Package, e.Test}
		number, ok := rowOf(e.Test)
		switch {
		case e.Action == "build-output":
			fmt.Fprint(out, e.Output)
		case e.Action == "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				outputs[key] += e.Output
			}
		case e.Action == "run" && ok:
			// A test without an end has failed, because its program stopped.
			found.resultOf(number).failed++
		case e.Action == "pass" && ok:
			found.resultOf(number).failed--
			found.resultOf(number).passed++
			delete(outputs, key)
		case e.Action == "fail":
			fmt.Fprint(out, outputs[key])
			delete(outputs, key)
		}
	}
	for key, output := range outputs {
		if _, ok := rowOf(key[1]); ok {
			fmt.Fprint(out, output)
		}
	}
	return found, nil
}

func (r results) resultOf(number int) *result {
	if r[number] == nil {
		r[number] = &result{}
	}
	return r[number]
}

// rowOf returns the row of a test or subtest.
func rowOf(test string) (number int, ok bool) {
	name, ok := strings.CutPrefix(test, "TestFault")
	if !ok || len(name) < 2 {
		return 0, false
	}
	number, err := strconv.Atoi(name[:2])
	return number, err == nil
}

// showMatrix prints the matrix and returns the number of failed rows.
func showMatrix(out io.Writer, rows []row, found results) (failed int) {
	passed := 0
	fmt.Fprintf(out, "%3s  %-60s  %-8s  %s\n", "row", "what goes wrong", "fault", "result")
	for _, r := range rows {
		verdict := "passed"
		switch tests := found[r.number]; {
		case tests == nil && r.later != "":
			fmt.Fprintf(out, "%3d  %-60s  %-8s  %s\n", r.number, r.fault, "-", "later: "+r.later)
			continue
		case tests == nil:
			verdict = "FAILED: it has no test"
		case tests.failed > 0 || tests.passed == 0:
			verdict = "FAILED"
		}
		if verdict == "passed" {
			passed++
		} else {
			failed++
		}
		fmt.Fprintf(out, "%3d  %-60s  %-8s  %s\n", r.number, r.fault, r.how, verdict)
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	return failed
}
