// Command mutants asks whether the tests notice faults: it puts one fault at a time into
// the code, a mutant, and runs the tests.
//
//	go run ./test/mutants [-n 75] [-seed 1] [-own] [-log FILE] [PACKAGE...]
//
// The seed chooses the mutants from all that there are in the packages. A mutant is caught
// if a test fails: one of its package, or else of those that drive it. With -own only
// those of its package run, which takes seconds each. One that does not compile is replaced
// by the next. The tree is not changed: the compiler gets the mutant by go build's -overlay.
//
// With -log the results are kept in a file: a run that was interrupted continues there.
//
// Mutants that make no difference are listed in equivalent.txt, with the reason, and are
// replaced by the next, too. The run fails if less than 90 % of the others are caught.
package main

import (
	"bufio"
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

// slow leaves out tests that boot guests, which take minutes.
const slow = "-skip=^Test(Guest|ARealGuest|Windows|QEMUAccepts)"

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
	"./runner/machine", "./runner/drive", "./runner/reconcile", "./runner/status", "./runner/changes",
	"./runner/record", "./qmp", "./vmtypes", "./vmtypes/plan", "./vmtypes/policy",
	"./manager/decide", "./manager/objects", "./manager/vm",
}

// drivers are the tests, as arguments of go test, that drive a package beside its own: they
// are few, so that a run takes less than an hour.
var drivers = map[string][]string{
	"runner/machine":   {"./runner/drive"},
	"runner/drive":     {"-run=TestFault", "./runner"},
	"runner/reconcile": {"./runner/machine", "./runner/drive"},
	"runner/status":    {"./runner/machine", "./runner/drive", "./runner/control"},
	"runner/changes":   {"./runner/follow", "./authoring/revision"},
	"runner/record":    {"-run=TestFault01|TestFault03|Record|TestMachine", "./cmd/vmrunner"},
	"qmp":              {"./qmp/goqemu", "./runner/drive"},
	"vmtypes":          {"./vmtypes/plan", "./vmtypes/evaluate", "./runner/prepare", "./authoring/vmtypestest"},
	"vmtypes/plan":     {"./vmtypes", "./runner/launch"},
	"vmtypes/policy":   {"./vmtypes"},
	"manager/decide":   {"./manager/vm"},
	"manager/objects":  {"./manager/decide", "./manager/vm"},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	n := flags.Int("n", 75, "how many mutants are tried")
	seed := flags.Uint64("seed", 1, "chooses them")
	own := flags.Bool("own", false, "run the tests of a mutant's package only")
	log := flags.String("log", "", "`file` with the results, by which an interrupted run continues")
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
	t := &trial{dir: dir, own: *own, out: out, known: map[string]string{}}
	if t.equivalent, err = readEquivalent(equivalentList); err != nil {
		return err
	}
	if *log != "" {
		file, err := t.resume(*log)
		if err != nil {
			return err
		}
		defer file.Close()
	}
	all, err := read(ctx, packages, len(t.known) == 0)
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Fprintf(out, "%d mutants of %d, chosen by seed %d\n", min(*n, len(all)), len(all), *seed)
	return t.try(ctx, all, *n)
}

// read returns the mutants of packages, whose tests pass if they are to be run.
func read(ctx context.Context, packages []string, tested bool) (all []mutant, err error) {
	if tested {
		test := exec.CommandContext(ctx, "go", append([]string{"test"}, packages...)...)
		if text, err := test.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("the tests fail without a mutant: %w\n%s", err, text)
		}
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
			m.pkg, m.path = pkg, path
			all = append(all, m)
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
	known  map[string]string // the results of an interrupted run, by mutants

	equivalent map[string]bool
}

// Results, as they are printed.
const (
	isCaught    = "caught  "
	hasSurvived = "SURVIVED"
	isRefused   = "refused "
)

// resume reads the results in a file, to which those of this run are added.
func (t *trial) resume(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if result, m, found := strings.Cut(lines.Text(), "\t"); found {
			t.known[m] = result
		}
	}
	t.out = io.MultiWriter(t.out, file)
	return file, nil
}

// try runs the tests with n mutants.
func (t *trial) try(ctx context.Context, all []mutant, n int) error {
	for _, m := range all {
		if t.caught+len(t.alive) == n {
			break
		}
		if t.equivalent[m.key()] {
			continue
		}
		result, known := t.known[m.String()]
		if !known {
			var err error
			if result, err = t.one(ctx, m); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				return err
			}
			fmt.Fprintf(t.out, "%s\t%s\n", result, m)
		}
		switch result {
		case isCaught:
			t.caught++
		case hasSurvived:
			t.alive = append(t.alive, m)
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

// one returns the result of the tests with a mutant.
func (t *trial) one(ctx context.Context, m mutant) (result string, err error) {
	overlay, err := t.overlay(m)
	if err != nil {
		return "", err
	}
	caught, err := fails(ctx, overlay, m.pkg)
	if more := drivers[strings.TrimPrefix(m.pkg, "vmop/")]; !caught && err == nil && !t.own && len(more) > 0 {
		caught, err = fails(ctx, overlay, more...)
	}
	switch {
	case errors.Is(err, errNotCompiled):
		return isRefused, nil
	case caught:
		return isCaught, err
	}
	return hasSurvived, err
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
	args := append([]string{"test", "-overlay=" + overlay, "-vet=off", "-failfast", "-timeout=10m", slow}, packages...)
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
