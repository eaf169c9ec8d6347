package vmtypestest

import (
	"context"
	"path/filepath"
	"strings"

	"vmop/vmtypes"
	"vmop/vmtypes/sample"
)

// T is the part of *testing.T that is used here, with T itself as the type that
// subtests get; programs that run tests of VM types need no package testing.
type T[Sub any] interface {
	Context() context.Context
	Run(name string, f func(Sub)) bool
	Helper()
	Error(args ...any)
	Fatal(args ...any)
}

// Run runs all tests of a folder of VM types as subtests of t, FILE/FUNCTION.
func Run[Sub T[Sub]](t Sub, dir string) {
	t.Helper()
	library, err := vmtypes.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = library.Close() }() // it was only read
	files, err := testFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, "_test.star"), func(t Sub) {
			s, err := load(t.Context(), library, file)
			if err != nil {
				t.Fatal(err)
			}
			for _, fn := range s.tests {
				t.Run(strings.TrimPrefix(fn.Name(), "test_"), func(t Sub) {
					for _, failure := range s.run(t.Context(), fn).Failures {
						t.Error("\n" + failure.Error())
					}
				})
			}
		})
	}
}

// RunGoldens compares all goldens of a folder, as subtests of t. With update
// it rewrites those that differ instead.
func RunGoldens[Sub T[Sub]](t Sub, library *vmtypes.Library, dir string, update bool) {
	t.Helper()
	paths, err := sample.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), sample.Suffix), func(t Sub) {
			g, err := sample.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := g.Plan(t.Context(), library)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case got.Text() == g.Text:
			case update:
				if err := g.Write(got.Text()); err != nil {
					t.Fatal(err)
				}
			default:
				t.Error("the plan differs from " + path + " (-update rewrites it):\n" + difference(g.Text, got.Text()))
			}
		})
	}
}

// difference returns the lines that are only in one of two texts: those of the
// first behind a minus, those of the second behind a plus.
func difference(before, after string) string {
	lines := func(text string) map[string]bool {
		set := map[string]bool{}
		for line := range strings.Lines(text) {
			set[line] = true
		}
		return set
	}
	old, now := lines(before), lines(after)
	var b strings.Builder
	for line := range strings.Lines(before) {
		if !now[line] {
			b.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(after) {
		if !old[line] {
			b.WriteString("+ " + line)
		}
	}
	if b.Len() == 0 {
		return "the same lines in another order\n"
	}
	return b.String()
}
