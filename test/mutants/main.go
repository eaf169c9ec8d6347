// Command mutants asks whether the tests notice faults: it puts one fault at a time into
// the code, a mutant, and runs the tests.
//
//	go run ./test/mutants [-n 75] [-seed 1] [-own] [PACKAGE...]
//
// The seed chooses the mutants from all that there are in the packages. A mutant is caught
// if a test fails: one of its package, or else of the packages that use it. With -own only
// those of its package run, which takes seconds each. One that does not compile is replaced
// by the next. The tree is not changed: the compiler gets the mutant by go build's -overlay.
//
// Mutants that make no difference are listed in equivalent.txt, with the reason. The run
// fails if less than 90 % of the others are caught.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// goal is the share of mutants that the tests must catch.
const goal = 0.9

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// subjects are the packages that decide, which have mutants unless others are named.
var subjects = []string{
	"./runner/machine", "./runner/drive", "./runner/reconcile", "./runner/changes", "./qmp", "./vmtypes",
	"./vmtypes/plan", "./vmtypes/policy", "./manager/vm", "./manager/decide",
}

// users are the packages whose tests use those below a folder, too.
var users = map[string][]string{
	"runner":  {"./runner", "./cmd/vmrunner"},
	"qmp":     {"./runner/drive", "./runner"},
	"vmtypes": {"./vmtypes/...", "./authoring/...", "./runner"},
	"manager": {"./manager/...", "./cmd/vmmanager"},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	n := flags.Int("n", 75, "how many mutants are tried")
	seed := flags.Uint64("seed", 1, "chooses them")
	own := flags.Bool("own", false, "run the tests of a mutant's package only")
	if err := flags.Parse(args); err != nil {
		return err
	}
	packages := flags.Args()
	if len(packages) == 0 {
		packages = subjects
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what remains is the system's to remove
	all, err := read(ctx, packages)
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Fprintf(out, "%d mutants of %d, chosen by seed %d\n", min(*n, len(all)), len(all), *seed)
	return (&trial{dir: dir, own: *own, out: out}).try(ctx, all, *n)
}

// read returns the mutants of packages whose tests pass.
func read(ctx context.Context, packages []string) (all []mutant, err error) {
	known, err := readEquivalent(equivalentList)
	if err != nil {
		return nil, err
	}
	test := exec.CommandContext(ctx, "go", append([]string{"test"}, packages...)...)
	if text, err := test.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests fail without a mutant: %w\n%s", err, text)
	}
	list := exec.CommandContext(ctx, "go", append([]string{
		"list", "-f",
		`{{range .GoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}`,
	}, packages...)...)
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		pkg, path, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(here, path)
		if err != nil {
			return nil, err
		}
		mutants, err := mutantsOf(name, source)
		if err != nil {
			return nil, err
		}
		for _, m := range mutants {
			if m.pkg, m.path = pkg, path; !known[m.key()] {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// A trial runs the tests with mutants.
type trial struct {
	dir    string
	own    bool
	out    io.Writer
	caught int
	alive  []mutant
}

// try runs the tests with n mutants.
func (t *trial) try(ctx context.Context, all []mutant, n int) error {
	for _, m := range all {
		if t.caught+len(t.alive) == n {
			break
		}
		caught, err := t.one(ctx, m)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNotCompiled):
			continue
		case err != nil:
			return err
		case caught:
			t.caught++
			fmt.Fprintln(t.out, "caught  ", m)
		default:
			t.alive = append(t.alive, m)
			fmt.Fprintln(t.out, "SURVIVED", m)
		}
	}
	tried := t.caught + len(t.alive)
	fmt.Fprintf(t.out, "%d of %d caught\n", t.caught, tried)
	if float64(t.caught) < goal*float64(tried) {
		return fmt.Errorf("%d of %d mutants survived: write tests, or enter what makes no difference into "+
			"test/mutants/equivalent.txt", len(t.alive), tried)
	}
	return nil
}

// errNotCompiled is the error for a mutant that the compiler refuses.
var errNotCompiled = errors.New("the mutant does not compile")

// one reports whether the tests catch a mutant.
func (t *trial) one(ctx context.Context, m mutant) (caught bool, err error) {
	overlay, err := t.overlay(m)
	if err != nil {
		return false, err
	}
	caught, err = fails(ctx, overlay, m.pkg)
	folder, _, _ := strings.Cut(strings.TrimPrefix(m.pkg, "vmop/"), "/")
	if caught || err != nil || t.own {
		return caught, err
	}
	return fails(ctx, overlay, users[folder]...)
}

// overlay returns a file for go build's -overlay.
func (t *trial) overlay(m mutant) (string, error) {
	source, err := os.ReadFile(m.path)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(t.dir, "mutant.go"), filepath.Join(t.dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {m.path: mutated}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(mutated, m.apply(source), 0o600), os.WriteFile(overlay, text, 0o600))
}

// fails reports whether tests fail with an overlay.
func fails(ctx context.Context, overlay string, packages ...string) (bool, error) {
	args := append([]string{"test", "-overlay=" + overlay, "-vet=off", "-failfast", "-timeout=10m"}, packages...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false, nil
	case bytes.Contains(out, []byte("[build failed]")):
		return false, errNotCompiled
	case errors.As(err, &exit):
		return true, nil
	}
	return false, fmt.Errorf("go test: %w", err)
}
