// Command mutants checks that the tests notice errors in the code. It puts one error at a time, a mutant, into a
// package and runs the tests of that package.
//
//	go run ./test/mutants [-n 100] [-seed 1] [-log FILE] [PACKAGE...]
//
// The seed chooses the mutants from all packages of the module, or from the named packages. The mutant is caught if a
// test fails, or if the tests take longer than a minute. A mutant that does not compile is replaced by the next mutant.
// The tree stays unchanged: go build's -overlay passes the mutant to the compiler.
//
// The tests run with -short, without those that use a guest, a cluster, a browser or built programs. Before the first
// mutant of a package, its tests run without a mutant. If they fail or take longer than a minute, the package is
// skipped and the reason printed. After a time-out this is checked again, because the computer may be busy.
//
// With -log the results are kept in a file, and an interrupted run continues from there.
//
// equivalent.txt lists mutants that no test needs to catch, with the reason. They are replaced as well. The run fails
// if less than 85 % of the others are caught.
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
	"syscall"
	"time"
)

const (
	// goal is the share of mutants that the tests must catch.
	goal = 0.85
	// limit is the maximum time for the tests of a package.
	limit = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// A mutant may allocate without end. The kernel should kill its test, not another program.
	err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	if err == nil {
		err = runMutants(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func runMutants(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	n := flags.Int("n", 100, "number of mutants")
	seed := flags.Uint64("seed", 1, "chooses the mutants")
	log := flags.String("log", "", "`file` with the results, from which an interrupted run continues")
	if err := flags.Parse(args); err != nil {
		return err
	}
	packages := flags.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // the system removes the rest
	t := &trial{dir: dir, out: out, known: map[string]string{}}
	if t.equivalent, err = readEquivalent(equivalentList); err != nil {
		return err
	}
	if *log != "" {
		file, err := t.resumeFrom(*log)
		if err != nil {
			return err
		}
		defer file.Close()
	}
	all, err := readMutants(ctx, packages)
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fmt.Fprintf(out, "%d mutants of %d, chosen by seed %d\n", min(*n, len(all)), len(all), *seed)
	return t.tryMutants(ctx, all, *n)
}

// subject is a package with mutants, as go list describes it.
type subject struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// readMutants returns the mutants of the packages that have tests.
func readMutants(ctx context.Context, packages []string) (all []mutant, err error) {
	text, err := exec.CommandContext(ctx, "go", append([]string{
		"list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles",
	}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for list := json.NewDecoder(bytes.NewReader(text)); ; {
		s := &subject{}
		if err := list.Decode(s); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		if len(s.TestGoFiles)+len(s.XTestGoFiles) == 0 {
			continue
		}
		for _, name := range s.GoFiles {
			path := filepath.Join(s.Dir, name)
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			if name, err = filepath.Rel(here, path); err != nil {
				return nil, err
			}
			mutants, err := mutantsOf(name, source)
			if err != nil {
				return nil, err
			}
			for _, m := range mutants {
				m.of, m.path = s, path
				all = append(all, m)
			}
		}
	}
}

// trial runs the tests with mutants.
type trial struct {
	dir    string
	out    io.Writer
	caught int
	alive  []mutant
	known  map[string]string // results by mutant and package, including an interrupted run

	equivalent map[string]bool
}

// Results as printed.
const (
	isCaught    = "caught  "
	isTooSlow   = "timeout "
	hasSurvived = "SURVIVED"
	isRefused   = "refused "
	isMeasured  = "measured"
	isLeftOut   = "left out"
)

// resumeFrom reads the results in a file, and appends the results of this run to it.
func (t *trial) resumeFrom(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if result, of, found := strings.Cut(lines.Text(), "\t"); found {
			of, _, _ = strings.Cut(of, "\t")
			t.known[of] = result
		}
	}
	t.out = io.MultiWriter(t.out, file)
	return file, nil
}

// tryMutants runs the tests with n mutants.
func (t *trial) tryMutants(ctx context.Context, all []mutant, n int) error {
	for _, m := range all {
		if t.caught+len(t.alive) == n {
			break
		}
		if t.equivalent[m.mutantKey()] {
			continue
		}
		result, known := t.known[m.String()]
		if !known {
			var err error
			if result, err = t.tryOne(ctx, m); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				return err
			}
			if result == isLeftOut {
				continue
			}
			fmt.Fprintf(t.out, "%s\t%s\n", result, m)
		}
		switch result {
		case isCaught, isTooSlow:
			t.caught++
		case hasSurvived:
			t.alive = append(t.alive, m)
		}
	}
	tried := t.caught + len(t.alive)
	fmt.Fprintf(t.out, "%d of %d caught\n", t.caught, tried)
	if float64(t.caught) < goal*float64(tried) {
		return fmt.Errorf("%d of %d mutants survived: write tests, or list mutants that need none in "+
			"test/mutants/equivalent.txt", len(t.alive), tried)
	}
	return nil
}

// tryOne returns the result of the tests with a mutant.
func (t *trial) tryOne(ctx context.Context, m mutant) (string, error) {
	use, err := t.measureTests(ctx, m.of)
	if err != nil || !use {
		return isLeftOut, err
	}
	overlay, err := t.writeOverlay(m)
	if err != nil {
		return "", err
	}
	result, _, err := m.of.runTests(ctx, limit, "-overlay="+overlay)
	if result == isTooSlow { // the mutant is slow, or the computer is busy
		delete(t.known, m.of.ImportPath)
		if use, err := t.measureTests(ctx, m.of); err != nil || !use {
			return isLeftOut, err
		}
	}
	return result, err
}

// measureTests reports whether the tests of a package pass in time without a mutant.
func (t *trial) measureTests(ctx context.Context, s *subject) (use bool, err error) {
	if result, known := t.known[s.ImportPath]; known {
		return result == isMeasured, nil
	}
	begin := time.Now()
	result, text, err := s.runTests(ctx, limit)
	if err != nil || ctx.Err() != nil {
		return false, errors.Join(err, ctx.Err())
	}
	outcome, reason := isLeftOut, ""
	switch result {
	case hasSurvived:
		outcome, reason = isMeasured, "its tests and their build take "+time.Since(begin).Round(time.Second/10).String()
	case isTooSlow:
		reason = "its tests take longer than " + limit.String()
	case isLeftOut:
		reason = "all its tests use a guest, a cluster, a browser or built programs"
	default:
		reason = "its tests fail without a mutant: " + text
	}
	t.known[s.ImportPath] = outcome
	fmt.Fprintf(t.out, "%s\t%s\t%s\n", outcome, s.ImportPath, reason)
	return outcome == isMeasured, nil
}

// writeOverlay creates a file for go build's -overlay and returns its path.
func (t *trial) writeOverlay(m mutant) (string, error) {
	source, err := os.ReadFile(m.path)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(t.dir, "mutant.go"), filepath.Join(t.dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {m.path: mutated}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(mutated, m.mutate(source), 0o600), os.WriteFile(overlay, text, 0o600))
}

// runTests runs the tests of a package, and returns the result and the last line of their output.
func (s *subject) runTests(ctx context.Context, limit time.Duration, flags ...string) (result, last string, err error) {
	skip, any, err := s.heavyTests()
	if err != nil || !any {
		return isLeftOut, "", err
	}
	args := append([]string{
		"test", "-short", "-count=1", "-vet=off", "-failfast", "-timeout=" + limit.String(),
		"-skip=" + skip,
	}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, s.ImportPath)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to end its child processes with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = limit
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last = lines[max(0, len(lines)-2)]
	var exit *exec.ExitError
	switch {
	case err == nil:
		return hasSurvived, last, nil
	case bytes.Contains(out, []byte("[build failed]")):
		return isRefused, last, nil
	case !bytes.Contains(out, []byte("--- FAIL")) && bytes.Contains(out, []byte("panic: test timed out after")):
		return isTooSlow, last, nil
	case errors.As(err, &exit):
		return isCaught, last, nil
	}
	return "", last, fmt.Errorf("go test: %w", err)
}
