package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Of mostFlaky failures at most it is believed that they have nothing to do with
// each other or with the code; repeats is how often each must then pass.
const mostFlaky, repeats = 3, 2

// mayBeFlaky says whether nothing but a few tests has failed.
func (r *result) mayBeFlaky() bool {
	return len(r.wrecked) == 0 && len(r.failures) > 0 && len(r.failures) <= mostFlaky
}

// repeat runs what failed again, each test alone, with the flags of args. The
// error is that of the first that fails again.
func (r *result) repeat(ctx context.Context, out io.Writer, args []string) error {
	for _, f := range r.failures {
		for range repeats {
			again, err := test(ctx, out, f.alone(args))
			if err != nil {
				return err
			}
			if again.passed == 0 {
				return fmt.Errorf("%s %s did not run again", f.pkg, f.test)
			}
		}
	}
	return nil
}

// alone returns the arguments of go test that run only this test; the last of
// two equal flags counts.
func (f failure) alone(args []string) []string {
	var only []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			only = append(only, arg)
		}
	}
	return append(only, "-count=1", "-run=^"+f.test+"$", f.pkg)
}

// forgive counts what failed as flaky, and says so where it is seen.
func (r *result) forgive(out io.Writer) {
	r.failed, r.flaky = 0, r.failed
	for _, f := range r.failures {
		fmt.Fprintf(out, "\nFLAKY: %s in %s failed, then passed %d times alone. It is to be repaired. What it said:\n%s", f.test, f.pkg, repeats, f.output)
	}
	fmt.Fprintln(out)
}
