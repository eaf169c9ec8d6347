// Command report runs go test. It prints the output of failed tests, go test's line for every package, every skipped
// test with its reason, and at the end the slowest tests and a line of totals.
//
//	report -timeout=20m ./...
//	report -short -timeout=20m ./...
//	report -shard=1/4 -timeout=40m ./...
//
// Its arguments are arguments of go test: flags, each with its value behind an equals sign, and packages. -shard=I/N
// runs the I-th of N parts, which take about the same time according to seconds.txt.
//
// Tests need real peers. A test that skips because its peer is missing proves nothing: if the environment variable CI
// is "true", a skipped test is a failure. Tests that -short leaves to make test-all are counted separately.
//
// Up to five failed tests run a second time, next to busy loops. A test that passes the second time is flaky. The
// report writes it to build/flakes.jsonl, and fails in CI if flaky.txt lacks more than two of the flaky tests; see
// docs/decisions/0033-flaky.md.
//
// Each result is written to build/test-times.jsonl immediately, so an interrupted run still shows which tests were
// slow. Processes that tests leave behind are ended and fail the run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"vmop/test/tier"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := runReport(ctx, os.Stdout, os.Args[1:], os.Getenv("CI") == "true")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// runReport runs the tests, and afterwards ends their processes and removes their temporary files.
func runReport(ctx context.Context, out io.Writer, args []string, strict bool) (err error) {
	batches, err := batchesOf(ctx, args)
	if err != nil {
		return err
	}
	list, err := readKnown(flakyList)
	if err != nil {
		return err
	}
	f, err := beFamily()
	if err != nil {
		return err
	}
	dir, err := shortFolder(os.TempDir())
	if err != nil {
		return err
	}
	defer func() {
		left := f.endDescendants(ctx, out)
		err = errors.Join(err, left, os.RemoveAll(dir))
	}()
	r := &report{out: out, strict: strict, known: list, family: f, env: append(os.Environ(), "TMPDIR="+dir)}
	return r.runAll(ctx, batches)
}

// report runs go test one or several times.
type report struct {
	out    io.Writer
	strict bool  // skipped tests and unlisted flaky tests are failures
	known  known // flaky tests
	family *family
	env    []string // of go test

	counts counts
	slow   []slowTest
}

// runAll runs go test once for each batch.
func (r *report) runAll(ctx context.Context, batches [][]string) error {
	var failed error
	for _, batch := range batches {
		if err := r.runWithRepeats(ctx, batch); err != nil && failed == nil {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	printSlowest(r.out, r.slow)
	if r.counts.left > 0 {
		fmt.Fprintf(r.out, "%d tests are %s\n", r.counts.left, tier.Left)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(r.out, "the run was ended before all tests had run")
	}
	fmt.Fprintln(r.out, r.counts)
	if failed != nil {
		return fmt.Errorf("go test: %w", failed)
	}
	return verdictOf(r.counts, r.strict)
}

// runWithRepeats runs go test, and repeats failed tests that may be flaky.
func (r *report) runWithRepeats(ctx context.Context, args []string) error {
	result, err := r.runGoTest(ctx, args)
	var exit *exec.ExitError
	if ctx.Err() == nil && errors.As(err, &exit) && exit.ExitCode() == 1 && result.mayBeFlaky() {
		fmt.Fprintln(r.out, "The failed tests run a second time, next to busy loops.")
		if r.repeatFailed(ctx, result, args) == nil {
			err = r.forgiveFlaky(result, time.Now())
		}
	}
	if result == nil {
		return err
	}
	if err != nil {
		result.printSummary(r.out)
	}
	r.counts.addCounts(result.counts)
	r.slow = append(r.slow, result.slow...)
	return err
}

// runGoTest runs go test once. The result is nil if go test's output can't be read.
func (r *report) runGoTest(ctx context.Context, args []string) (*result, error) {
	test := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
	test.Stderr, test.Env = os.Stderr, r.env
	events, err := test.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.family.startCommand(test); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, r.family.terminateAll)()
	times, err := openLog("test-times.jsonl")
	if err != nil {
		return nil, errors.Join(err, test.Wait())
	}
	defer times.Close() // each line has already been written
	result := newResult()
	result.times = times
	if err := result.readEvents(events, r.out); err != nil {
		return nil, errors.Join(err, test.Wait())
	}
	return result, test.Wait()
}

// verdictOf returns the error of a run in which go test succeeded.
func verdictOf(c counts, strict bool) error {
	switch {
	case c.passed == 0:
		return errors.New("no test ran")
	case strict && c.skipped > 0:
		return fmt.Errorf("%d tests were skipped, and none may be", c.skipped)
	}
	return nil
}

// shortFolder creates a folder for temporary files. Its name is short because the paths of Unix sockets are limited.
// All users may access it because some tests drop their privileges.
func shortFolder(parent string) (string, error) {
	for i := range 1000 {
		dir := fmt.Sprintf("%s/v%d", strings.TrimSuffix(parent, "/"), i)
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil {
			err = os.Chmod(dir, 0o777|os.ModeSticky)
		}
		return dir, err
	}
	return "", fmt.Errorf("%s has a thousand folders of earlier runs; remove them", parent)
}
