// Command faults runs the tests of the fault matrix and prints the matrix. Each row is a problem that a VM can have,
// and shows whether the runner reacts correctly.
//
//	go run ./test/faults -timeout 20m
//
// Its arguments are arguments of go test. The tests of row 4 are the functions with the prefix TestFault04, in any
// package. "make test" runs them as well. The last line counts the rows. A promised row without a test has failed.
//
// See docs/decisions/0023-fault-matrix.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runMatrix(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// pattern selects the tests of the matrix.
const pattern = "^TestFault[0-9]{2}"

func runMatrix(ctx context.Context, args []string, out io.Writer) error {
	args = append([]string{"test", "-json", "-count=1", "-run", pattern}, append(args, "./...")...)
	test := exec.CommandContext(ctx, "go", args...)
	test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err != nil {
		return err
	}
	if err := test.Start(); err != nil {
		return err
	}
	fmt.Fprintln(out, "The tests of the fault matrix run; they take some minutes.")
	found, err := readEvents(events, out)
	// Report failed rows first, and another failure of go test only if all rows have passed.
	ended := test.Wait()
	if err != nil {
		return errors.Join(err, ended)
	}
	if failed := showMatrix(out, matrixRows(), found); failed > 0 {
		return fmt.Errorf("%d rows of the matrix failed", failed)
	}
	if ended != nil {
		return fmt.Errorf("go test: %w", ended)
	}
	return nil
}
