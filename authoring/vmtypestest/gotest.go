package vmtypestest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"vmop/authoring/sample"
	"vmop/vmtypes"
)

// T is the part of *testing.T that this package uses. Sub is the type of subtests, T itself. With it, programs that run
// tests of VM types don't need package testing.
type T[Sub any] interface {
	Context() context.Context
	Run(name string, f func(Sub)) bool
	Helper()
	Error(args ...any)
	Fatal(args ...any)
}

// Run runs all tests of a folder of VM types as subtests FILE/FUNCTION of t. It also tests the samples, if any.
func Run[Sub T[Sub]](t Sub, dir string) {
	t.Helper()
	library, err := vmtypes.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = library.Close() }() // it was only read
	folder, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(folder.Files) == 0 {
		t.Fatal(fmt.Sprintf("there is no file *%s in %s", testSuffix, filepath.Clean(dir)))
	}
	for _, file := range folder.Files {
		t.Run(strings.TrimSuffix(file, testSuffix), func(t Sub) {
			s, err := loadSuite(t.Context(), library, file)
			if err != nil {
				t.Fatal(err)
			}
			for _, fn := range s.tests {
				t.Run(strings.TrimPrefix(fn.Name(), testPrefix),
					func(t Sub) { reportTo(t, s.runTest(t.Context(), fn)) })
			}
		})
	}
	for _, name := range folder.Samples {
		t.Run(name, func(t Sub) { reportTo(t, testSample(t.Context(), In(library), dir, name, Options{})) })
	}
}

// RunGoldens tests all samples of a folder as subtests of t. With update, it rewrites different plans.
func RunGoldens[Sub T[Sub]](t Sub, library *vmtypes.Library, dir string, update bool) {
	t.Helper()
	paths, err := sample.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("there is no sample in " + dir)
	}
	for _, path := range paths {
		name := strings.TrimPrefix(path, filepath.Clean(dir)+string(filepath.Separator))
		t.Run(strings.TrimSuffix(name, sample.Suffix),
			func(t Sub) { reportTo(t, testSample(t.Context(), In(library), dir, name, Options{Update: update})) })
	}
}

func reportTo[Sub T[Sub]](t Sub, r Result) {
	t.Helper()
	for _, failure := range r.Failures {
		t.Error("\n" + failure.Error())
	}
}
