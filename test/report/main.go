// Command report runs go test and prints what a reader needs: the output of what
// failed, go test's own line for every package, every skipped test with its
// reason, and at last one line of numbers.
//
//	go run ./test/report -timeout 20m ./...
//
// Its arguments are those of go test. Tests need real peers, and one that skips
// because its peer is missing proves nothing: where the environment variable CI
// is "true", a skipped test is a failure.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv("CI") == "true")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, strict bool) error {
	test := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err != nil {
		return err
	}
	if err := test.Start(); err != nil {
		return err
	}
	counted, err := report(events, os.Stdout)
	if err := errors.Join(err, test.Wait()); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return verdict(counted, strict)
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
