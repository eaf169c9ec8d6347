// Command vmrunner runs one virtual machine with QEMU.
//
//	vmrunner [run] -c FILE   runs the VM that a configuration file describes
//	vmrunner plan -c FILE    prints what would be done, and why
//	vmrunner init -c FILE    does the same as run, and survives the runner's death
//	vmrunner version         prints the version
//
// run exits with 0 when the guest or the user ended the VM, with 2 when it was
// called wrongly or the configuration is missing or has faults, with 3 when the VM runs
// already, with 1 or QEMU's own code when the VM failed, and with 128 and the
// signal's number when a signal ended it before the guest ran.
//
// The other verbs ask the runner of a VM that runs, by its control socket:
//
//	vmrunner ps                              lists the VMs of this user
//	vmrunner status|events NAME              what is known, what happens
//	vmrunner stop|reset|pause|resume NAME    what a button does
//	vmrunner console|vnc|screenshot NAME     the guest's serial port and screen
//	vmrunner qmp NAME COMMAND                QEMU's own protocol
//
// They exit with 0, with 2 when called wrongly, with 3 when there is no such VM,
// and with 1 when something else went wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"vmop/cli"
	"vmop/runner"
	"vmop/runner/control"
	"vmop/runner/supervisor"
	"vmop/vmtypes/evaluate"
	"vmop/yamlfile"
)

func main() {
	evaluate.Serve(context.Background(), nil) // if this is such a process
	ctx, stop := untilSignal(context.Background())
	root := newCommand()
	root.PersistentPreRun = func(*cobra.Command, []string) { harden() }
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil && !errors.As(err, new(loggedError)) && !errors.As(err, new(cli.ExitError)) {
		fmt.Fprintln(os.Stderr, "vmrunner:", cli.Describe(err))
	}
	os.Exit(exitCode(err))
}

// harden keeps what is ours from others: files and sockets, QEMU's too, are for
// this user only, and no descriptor that was left open by whoever started us
// reaches QEMU.
func harden() {
	unix.Umask(0o077)
	_ = unix.CloseRange(firstInherited, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // Linux 5.11; before, they stay
}

// firstInherited is the first descriptor that is not a standard stream.
const firstInherited = 3

// loggedError is an error that the log has told already: a log of JSON is read
// by programs, which want everything in it.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// untilSignal returns a context that is done at the first TERM or INT, or at once
// if an earlier runner of this VM got one. Further
// signals change nothing: the guest is being asked already.
func untilSignal(parent context.Context) (context.Context, func()) {
	if asked := supervisor.AskedToStop(); asked != 0 {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(cli.SignalError{Signal: asked})
		parent = ctx
	}
	return cli.UntilSignal(parent)
}

// hangUps tells of each HUP, with which a service is told to read its
// configuration again. One that comes while nobody listens yet is kept.
func hangUps() (told <-chan struct{}, stop func()) {
	signals, out := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			select {
			case out <- struct{}{}:
			default: // it will be seen
			}
		}
	}()
	return out, func() { signal.Stop(signals); close(signals) }
}

// Exit codes; see the package comment.
const (
	exitFailed = 1
	exitLocked = 3 // run: the VM runs already
	exitAbsent = 3 // the other verbs: it doesn't
)

// outcomeError carries QEMU's exit code.
type outcomeError struct{ outcome runner.Outcome }

func (e outcomeError) Error() string { return "the VM ended: " + e.outcome.String() }

func exitCode(err error) int {
	var outcome outcomeError
	var sig cli.SignalError
	var exit cli.ExitError
	var faults yamlfile.Faults
	switch {
	case err == nil:
		return 0
	case errors.As(err, &outcome):
		return outcome.outcome.ExitCode()
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &sig):
		return sig.ExitCode()
	case errors.Is(err, runner.ErrLocked):
		return exitLocked
	case errors.Is(err, control.ErrNotRunning):
		return exitAbsent
	case errors.As(err, &faults), errors.As(err, new(cli.UsageError)):
		return cli.ExitUsage
	}
	return exitFailed
}
