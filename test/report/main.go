// Command report runs go test and prints the output of the tests that failed, go
// test's own line for every package, every skipped test with its reason, and at the
// end the slowest tests, and one line of numbers.
//
//	go run ./test/report -timeout=20m ./...
//
// Its arguments are those of go test: flags, each with its value behind an equals
// sign, and packages. Tests need real peers, and one that skips because its peer
// is missing proves nothing: where the environment variable CI is "true", a
// skipped test is a failure.
//
// When no more than three tests have failed, each runs again alone, twice. If both
// pass the test is flaky, and its output is repeated at the end of the report. The run
// succeeds if flaky.txt lists the flaky tests, or all but two of them; decision 0033 has
// the whole budget.
//
// See docs/decisions/0033-flaky.md; which packages the Makefile has tested under the race
// detector, docs/decisions/0162-race-detector.md says.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:], os.Getenv("CI") == "true")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string, strict bool) error {
	list, err := readKnown(flakyList)
	if err != nil {
		return err
	}
	return runAgainst(ctx, out, args, strict, list)
}

func runAgainst(ctx context.Context, out io.Writer, args []string, strict bool, list known) error {
	result, err := test(ctx, out, args)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && result.mayBeFlaky() {
		fmt.Fprintln(out, "The failed tests run again, each alone and twice.")
		if result.repeat(ctx, out, args) == nil {
			err = result.forgive(out, list, time.Now())
		}
	}
	if result != nil {
		result.slowest(out)
		if err != nil {
			result.summary(out)
		}
		fmt.Fprintln(out, result.counts)
	}
	if err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return verdict(result.counts, strict)
}

// test runs go test once and reports it. There is no result when go test's output
// cannot be read.
func test(ctx context.Context, out io.Writer, args []string) (*result, error) {
	test := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := test.Start(); err != nil {
		return nil, err
	}
	r := newResult()
	if err := r.read(events, out); err != nil {
		return nil, errors.Join(err, test.Wait())
	}
	return r, test.Wait()
}

// verdict judges a go test that succeeded.
func verdict(c counts, strict bool) error {
	switch {
	case c.passed == 0:
		return errors.New("no test ran")
	case strict && c.skipped > 0:
		return fmt.Errorf("%d tests were skipped, and none may be", c.skipped)
	}
	return nil
}
