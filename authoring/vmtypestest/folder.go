package vmtypestest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A Folder lists the tests and samples in a folder of VM types.
type Folder struct {
	// Dir is the path of the folder.
	Dir string
	// Files are the names of the test files, sorted.
	Files []string
	// Samples are paths relative to Dir. Samples in testdata come last.
	Samples []string
}

// Find lists the tests and samples in a folder.
func Find(dir string) (*Folder, error) {
	files, err := testFiles(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{Dir: dir, Files: files}
	paths, err := sample.Find(dir)
	for _, path := range paths {
		name, relErr := filepath.Rel(dir, path)
		if relErr != nil {
			return nil, fmt.Errorf("look for samples: %w", relErr)
		}
		f.Samples = append(f.Samples, name)
	}
	return f, err
}

// testFiles returns the names of the test files in dir, sorted.
func testFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for tests: %w", err)
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), testSuffix) {
			files = append(files, e.Name())
		}
	}
	return files, nil
}

// An Evaluator evaluates the types and tests of a folder. [In] returns one for trusted content. For untrusted content,
// use package evaluate.
type Evaluator interface {
	// Test runs the tests of a file, like TestFile.
	Test(ctx context.Context, file string, match *regexp.Regexp) []Result
	// Launch returns the plan of the type with this name, like vmtypes.Type.Launch.
	Launch(ctx context.Context, vmType string, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error)
}

// In returns an Evaluator for the modules of a library in this process.
func In(library *vmtypes.Library) Evaluator { return inLibrary{library} }

type inLibrary struct{ *vmtypes.Library }

// Test implements Evaluator.
func (l inLibrary) Test(ctx context.Context, file string, match *regexp.Regexp) []Result {
	return TestFile(ctx, l.Library, file, match)
}

// Launch implements Evaluator.
func (l inLibrary) Launch(ctx context.Context, vmType string, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	t, err := l.Load(ctx, vmType)
	if err != nil {
		return nil, err
	}
	return t.Launch(ctx, spec, host)
}

// Options select the tests, and how they run.
type Options struct {
	// Match selects tests by their names (Result.Name); nil selects all.
	Match *regexp.Regexp
	// Select selects files and samples by their names; nil selects all.
	Select func(file string) bool
	// Update writes plans into goldens instead of comparing them.
	Update bool
	// Host finds the host for configurations; nil means an assumed host.
	Host sample.Finder
	// Cache stores the tests that have passed. Without a Cache, all tests run.
	Cache *Cache
}

// Run runs the tests of the files, followed by the samples, several at a time. It calls each with the results of one
// file at a time, always in the same order. If the context ends, Run returns its cause and does not call each any more.
func (f *Folder) Run(ctx context.Context, in Evaluator, options Options, each func([]Result)) error {
	var work []func() []Result
	selected := func(file string) bool { return options.Select == nil || options.Select(file) }
	for _, file := range f.Files {
		if !selected(file) {
			continue
		}
		work = append(work, func() []Result {
			return options.Cache.results(ctx, file, options.Match, func() []Result {
				return in.Test(ctx, file, options.Match)
			})
		})
	}
	for _, name := range f.Samples {
		if selected(name) && (options.Match == nil || options.Match.MatchString(name)) {
			work = append(work, func() []Result {
				return options.Cache.results(ctx, name, nil, func() []Result {
					return []Result{testSample(ctx, in, f.Dir, name, options)}
				})
			})
		}
	}
	InOrder(work, func(results []Result) {
		if ctx.Err() == nil {
			each(results)
		}
	})
	return context.Cause(ctx)
}

// InOrder runs functions in parallel, one per processor, and passes their results to each in order.
func InOrder[T any](work []func() T, each func(T)) {
	results := make([]chan T, len(work))
	for i := range results {
		results[i] = make(chan T, 1)
	}
	var next sync.Mutex
	started := 0
	take := func() int {
		next.Lock()
		defer next.Unlock()
		started++
		return started - 1
	}
	for range min(runtime.GOMAXPROCS(0), len(work)) {
		go func() {
			for i := take(); i < len(work); i = take() {
				results[i] <- work[i]()
			}
		}()
	}
	for _, result := range results {
		each(<-result)
	}
}

// A Summary counts results.
type Summary struct {
	Passed int `json:"passed"`
	// Cached is the number of passed tests that were not run, because they passed earlier.
	Cached  int `json:"cached,omitempty"`
	Failed  int `json:"failed"`
	Updated int `json:"updated,omitempty"`
	Skipped int `json:"skipped,omitempty"`
}

// Summarize counts the results.
func Summarize(results []Result) Summary {
	var s Summary
	for _, r := range results {
		switch {
		case len(r.Failures) > 0:
			s.Failed++
		case r.Updated:
			s.Updated++
		case r.Skipped != "":
			s.Skipped++
		default:
			s.Passed++
			if r.Cached {
				s.Cached++
			}
		}
	}
	return s
}

// String returns the counts: "12 passed (3 cached), 1 failed".
func (s Summary) String() string {
	text := fmt.Sprintf("%d passed", s.Passed)
	if s.Cached > 0 {
		text += fmt.Sprintf(" (%d cached)", s.Cached)
	}
	for _, part := range []struct {
		n    int
		what string
	}{{s.Failed, "failed"}, {s.Updated, "updated"}, {s.Skipped, "not tried"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}
