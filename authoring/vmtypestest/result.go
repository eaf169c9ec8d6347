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
	// File is the test file or sample, as it is named from the folder of types.
	File string `json:"file"`
	// Function is the test function; empty for a sample, and for what was wrong
	// with a file as a whole.
	Function string `json:"function,omitempty"`
	// Line of the function; 0 if there is none.
	Line int `json:"line,omitempty"`
	// Time it took.
	Time time.Duration `json:"nanoseconds"`
	// Failures are what is wrong; none if the test passed.
	Failures []Failure `json:"failures,omitempty"`
	// Skipped is the reason why the test was not run; empty if it was.
	Skipped string `json:"skipped,omitempty"`
	// Output is what print wrote, in lines.
	Output string `json:"output,omitempty"`
	// Updated says that a golden was updated; Changes shows the difference.
	Updated bool `json:"updated,omitempty"`
	// Changes are those of an updated golden, as Failure.Diff.
	Changes string `json:"changes,omitempty"`
}

// Name is what a test is selected by: FILE/FUNCTION, or the file alone.
func (r Result) Name() string {
	if r.Function == "" {
		return r.File
	}
	return r.File + "/" + r.Function
}

// A Failure is one failure of a test.
type Failure struct {
	// File, Line and Column are the place; Line and Column count from 1 and are 0
	// if there is none.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Message says what is wrong, without the place.
	Message string `json:"message"`
	// Text is all that there is to say: place, message, source line, calls.
	Text string `json:"text"`
	// Diff, if the failure is a difference, has lines whose first byte says what
	// they are: '-' what was wanted, '+' what there is, ' ' both, '@' a place.
	Diff string `json:"diff,omitempty"`
}

// Error returns everything.
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
		f.Text = err.Error() // with what was being done
		failures = append(failures, f)
	default:
		failures = append(failures, Failure{Message: err.Error(), Text: err.Error()})
	}
	return failures
}

func failureOf(e *vmtypes.Error) Failure {
	return Failure{File: e.File, Line: e.Line, Column: e.Column, Message: e.Message, Text: e.Error()}
}
