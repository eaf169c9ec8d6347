package vmtypestest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmtypes"
)

// A Result tells how one test function did.
type Result struct {
	// File and Function name the test.
	File, Function string
	// Failures are what is wrong, each with its place and source line; none if
	// the test passed.
	Failures []error
}

// A suite is one test file, loaded.
type suite struct {
	file   string
	script *vmtypes.Script
	tests  []*starlark.Function
}

// Test runs all tests of a folder of VM types, file by file and in source
// order. The error tells of a file that could not be loaded.
func Test(ctx context.Context, dir string) ([]Result, error) {
	library, err := vmtypes.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = library.Close() }() // it was only read
	files, err := testFiles(dir)
	if err != nil {
		return nil, err
	}
	var results []Result
	for _, file := range files {
		s, err := load(ctx, library, file)
		if err != nil {
			return results, err
		}
		for _, fn := range s.tests {
			results = append(results, s.run(ctx, fn))
		}
	}
	return results, nil
}

// testFiles returns the names of the test files in dir, sorted.
func testFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for tests: %w", err)
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.star") {
			files = append(files, e.Name())
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("look for tests: there is no file whose name ends in _test.star in %s", filepath.Clean(dir))
	}
	return files, nil
}

func load(ctx context.Context, library *vmtypes.Library, file string) (*suite, error) {
	script, err := library.Script(ctx, file, map[string]starlark.StringDict{moduleName: testing()})
	if err != nil {
		return nil, fmt.Errorf("load tests: %w", err)
	}
	s := &suite{file: file, script: script}
	for _, fn := range script.Functions() {
		if strings.HasPrefix(fn.Name(), "test_") {
			s.tests = append(s.tests, fn)
		}
	}
	if len(s.tests) == 0 {
		return nil, fmt.Errorf("load tests: %s has no function whose name begins with test_", file)
	}
	return s, nil
}

// run runs one test in a thread of its own.
func (s *suite) run(ctx context.Context, fn *starlark.Function) Result {
	r := &recorder{script: s.script}
	if err := s.script.Call(ctx, fn, r.attach); err != nil {
		r.failures = append(r.failures, err)
	}
	return Result{File: s.file, Function: fn.Name(), Failures: r.failures}
}
