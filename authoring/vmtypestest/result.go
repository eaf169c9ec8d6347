package vmtypestest

import (
	"errors"
	"strings"
	"time"

	"vmop/internal/yamlfile"
	"vmop/vmtypes"
)

// A Result is the result of one test.
type Result struct {
	// File is the test file or sample, relative to the folder of types.
	File string `json:"file"`
	// Function is the test function. It is empty for a sample, and for errors in a file as a whole.
	Function string `json:"function,omitempty"`
	// Line is the line of the function; 0 if there is no function.
	Line int `json:"line,omitempty"`
	// Time is the duration of the test.
	Time time.Duration `json:"nanoseconds"`
	// Failures are the failures; empty if the test passed.
	Failures []Failure `json:"failures,omitempty"`
	// Skipped is the reason why the test was not run; empty if it was run.
	Skipped string `json:"skipped,omitempty"`
	// Note describes how the test was run; may be empty.
	Note string `json:"note,omitempty"`
	// Output contains the lines that print wrote.
	Output string `json:"output,omitempty"`
	// Cached means that the test passed in an earlier run with the same files; see Cache.
	Cached bool `json:"cached,omitempty"`
	// Updated means that a golden was updated. Changes contains the difference.
	Updated bool `json:"updated,omitempty"`
	// Changes is the difference of an updated golden, in the format of Failure.Diff.
	Changes string `json:"changes,omitempty"`
}

// Name returns the name that selects the test: FILE/FUNCTION, or the file alone.
func (r Result) Name() string {
	if r.Function == "" {
		return r.File
	}
	return r.File + "/" + r.Function
}

// A Failure is one failure of a test.
type Failure struct {
	// File, Line and Column are the place. Line and Column count from 1, and are 0 if there is no place.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Message describes the failure, without the place.
	Message string `json:"message"`
	// Text is the full text: place, message, source line, calls.
	Text string `json:"text"`
	// Diff is the difference between two texts, or empty. The first byte of a line is its kind: '-' for expected, '+'
	// for actual, ' ' for both, '@' for a place.
	Diff string `json:"diff,omitempty"`
}

// Error returns the text with the difference.
func (f Failure) Error() string {
	if f.Diff == "" {
		return f.Text
	}
	return f.Text + "\n    " + strings.ReplaceAll(strings.TrimSuffix(f.Diff, "\n"), "\n", "\n    ")
}

// FailuresOf returns the failures in an error.
func FailuresOf(err error) []Failure {
	var failures []Failure
	var faults yamlfile.Faults
	var several vmtypes.Errors
	var one *vmtypes.Error
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			message := strings.TrimPrefix(f.Error(),
				yamlfile.Fault{File: f.File, Line: f.Line, Column: f.Column}.Error())
			failures = append(failures, Failure{
				File: f.File, Line: f.Line, Column: f.Column, Message: message,
				Text: strings.TrimSuffix(f.Excerpt(), "\n"),
			})
		}
	case errors.As(err, &several):
		for _, e := range several {
			failures = append(failures, failureOf(e))
		}
	case errors.As(err, &one):
		f := failureOf(one)
		f.Text = err.Error() // including the context of the error
		failures = append(failures, f)
	default:
		failures = append(failures, Failure{Message: err.Error(), Text: err.Error()})
	}
	return failures
}

func failureOf(e *vmtypes.Error) Failure {
	return Failure{File: e.File, Line: e.Line, Column: e.Column, Message: e.Message, Text: e.Error()}
}
