package vmtypestest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"vmop/vmtypes"
)

// testSuffix is the suffix of test files; testPrefix is the prefix of test functions.
const (
	testSuffix = "_test.star"
	testPrefix = "test_"
)

// testTime is the time limit of one test function. A launch takes milliseconds.
const testTime = 5 * time.Second

// A suite is a loaded test file.
type suite struct {
	file   string
	script *vmtypes.Script
	tests  []*starlark.Function
}

// TestFile runs the tests in one file of the library's folder in source order, each in a separate thread. It only runs
// tests with a matching name, FILE/FUNCTION; nil matches all tests. A file that can't be loaded has one result with the
// failures.
func TestFile(ctx context.Context, library *vmtypes.Library, file string, match *regexp.Regexp) []Result {
	start := time.Now()
	s, err := loadSuite(ctx, library, file)
	if err != nil {
		return []Result{{File: file, Time: time.Since(start), Failures: FailuresOf(err)}}
	}
	var results []Result
	for _, fn := range s.tests {
		if match == nil || match.MatchString(Result{File: file, Function: fn.Name()}.Name()) {
			results = append(results, s.runTest(ctx, fn))
		}
	}
	return results
}

// Serve implements evaluate.Tester with TestFile.
func Serve(ctx context.Context, library *vmtypes.Library, file string, match *regexp.Regexp) any {
	return TestFile(ctx, library, file, match)
}

func loadSuite(ctx context.Context, library *vmtypes.Library, file string) (*suite, error) {
	script, err := library.Script(ctx, file, map[string]starlark.StringDict{moduleName: testingModule()})
	if err != nil {
		return nil, err
	}
	s := &suite{file: file, script: script}
	for _, fn := range script.Functions() {
		if strings.HasPrefix(fn.Name(), testPrefix) {
			s.tests = append(s.tests, fn)
		}
	}
	if len(s.tests) == 0 {
		return nil, fmt.Errorf("%s has no function with a name that begins with %s", file, testPrefix)
	}
	return s, nil
}

// runTest runs one test in a separate thread.
func (s *suite) runTest(ctx context.Context, fn *starlark.Function) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, testTime, fmt.Errorf("a test has %s", testTime))
	defer cancel()
	start := time.Now()
	r := &recorder{ctx: ctx, script: s.script}
	if fn.NumParams() > 0 {
		r.failures = FailuresOf(&vmtypes.Error{Message: fmt.Sprintf("%s has parameters; a test is called without "+
			"arguments",
			fn.Name())})
	} else if err := s.script.Call(ctx, fn, r.attachTo); err != nil {
		r.failures = append(r.failures, FailuresOf(err)...)
	}
	return Result{
		File: s.file, Function: fn.Name(), Line: int(fn.Position().Line), Time: time.Since(start),
		Failures: r.allFailures(), Output: r.output.String(),
	}
}

// Limits for the report of a test.
const (
	mostFailures = 10
	mostOutput   = 64 << 10 // bytes
)

// recorder collects the failures and output of one test function. It is a local of the thread.
type recorder struct {
	ctx      context.Context
	script   *vmtypes.Script
	failures []Failure
	more     int // failures beyond mostFailures
	output   strings.Builder
}

const recorderKey = "vmtypestest"

func (r *recorder) attachTo(thread *starlark.Thread) {
	thread.SetLocal(recorderKey, r)
	thread.Print = func(_ *starlark.Thread, text string) {
		if r.output.Len()+len(text) < mostOutput {
			r.output.WriteString(text + "\n")
		}
	}
}

func (r *recorder) addFailure(f Failure) {
	if len(r.failures) == mostFailures {
		r.more++
		return
	}
	r.failures = append(r.failures, f)
}

func (r *recorder) allFailures() []Failure {
	if r.more == 0 {
		return r.failures
	}
	text := fmt.Sprintf("and %d more failures", r.more)
	return append(r.failures, Failure{Message: text, Text: text})
}

// recorderOf returns the thread's recorder. There is no recorder while a module is loaded.
func recorderOf(thread *starlark.Thread) (*recorder, error) {
	r, ok := thread.Local(recorderKey).(*recorder)
	if !ok {
		return nil, errors.New("can only be called in functions named test_…, not while a file is loaded")
	}
	return r, nil
}
