package main

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The output of vmmanager is as expected.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits CODE ARGUMENTS… requires that vmmanager exits with a code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("vmmanager", args[1:]...)
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("vmmanager %q: %v, want exit code %s", args[1:], err, args[0])
	}
}
