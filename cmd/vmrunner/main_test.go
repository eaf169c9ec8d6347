package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/internal/cli"
	"vmop/internal/yamlfile"
	"vmop/runner"
	"vmop/runner/machine"
	"vmop/vmstatus"
)

// TestMain puts the program on the PATH of scripts and tests.
func TestMain(m *testing.M) {
	testscript.Main(apart{m}, map[string]func(){"vmrunner": main, "clock-qemu": clockQEMU})
}

// apart runs the tests so that their VMs are not listed among the user's. Most tests wait more than they compute, so it
// runs more in parallel than there are processors, unless a go test flag sets the number.
type apart struct{ *testing.M }

// Run implements testscript.TestingM.
func (a apart) Run() (code int) {
	dir, err := os.MkdirTemp("", "v")
	if err == nil {
		err = errors.Join(os.Setenv("XDG_RUNTIME_DIR", dir), flag.Set("test.parallel", "6"))
	}
	if err == nil {
		code = a.M.Run()
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// The output of vmrunner is as expected.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir+"/xdg")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits CODE ARGUMENTS… requires that vmrunner exits with a code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("vmrunner", args[1:]...)
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("vmrunner %q: %v, want exit code %s", args[1:], err, args[0])
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what string
		err  error
		want int
	}{
		{"all is well", nil, 0},
		{"QEMU's own code", outcomeError{runner.Outcome{Outcome: machine.Outcome{
			Cause: vmstatus.CauseCrashed,
			Exit:  childprocess.Exit{Code: 42},
		}}}, 42},
		{"QEMU was killed", outcomeError{runner.Outcome{Outcome: machine.Outcome{
			Cause: vmstatus.CauseKilled,
			Exit:  childprocess.Exit{Code: -1, Signal: syscall.SIGKILL},
		}}}, 137},
		{"TERM before the guest ran", fmt.Errorf("stopped while the VM was being started: %w",
			cli.SignalError{Signal: syscall.SIGTERM}), 143},
		{"INT before the guest ran", fmt.Errorf("stopped: %w", cli.SignalError{Signal: syscall.SIGINT}), 130},
		{"the VM runs already", fmt.Errorf("here: %w", runner.ErrLocked), 3},
		{"a wrong call", cli.UsageError{Err: errors.New("what?")}, 2},
		{"a wrong configuration", fmt.Errorf("read: %w", yamlfile.Faults{{Message: "no"}}), 2},
		{
			"the same, when the log has told it",
			loggedError{fmt.Errorf("read: %w", yamlfile.Faults{{Message: "no"}})},
			2,
		},
		{"anything else", errors.New("no"), 1},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, exitCode(tt.err))
		})
	}
}
