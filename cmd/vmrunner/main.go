// Command vmrunner runs one virtual machine with QEMU.
//
//	vmrunner [run] -c FILE   runs the VM that a configuration file describes
//	vmrunner plan -c FILE    prints what would be done, and why
//	vmrunner init -c FILE    runs it as PID 1 of a container, and restarts a killed runner
//	vmrunner version         prints the version
//
// VMs have names, and configurations in ~/.config/vmrunner and /etc/opt/vmrunner. run and plan also accept a NAME
// (package runner/inventory, docs/tasks/standalone.md):
//
//	vmrunner list                            lists all VMs, running or not
//	vmrunner create|edit|delete NAME         creates, changes, deletes a configuration
//	vmrunner convert FILE                    converts another program's VM to a configuration
//	vmrunner start|restart NAME              starts a VM as a systemd service, or detached
//	vmrunner disk|image VERB                 creates disks from images, and manages both
//	vmrunner reclaim NAME                    abandons a guest that was lost in a migration
//	vmrunner autostart NAME on|off           lets systemd start it with the computer
//
// Exit codes of run:
//
//   - 0: the guest or the user ended the VM
//   - 1 or QEMU's own code: the VM failed
//   - 2: wrong usage, or the configuration is missing or invalid
//   - 3: the VM is already running
//   - 128 plus the number of a signal: the signal ended it before the guest was started
//
// The other verbs send a request to the runner of a running VM over its control socket:
//
//	vmrunner ps                              lists the VMs of this user
//	vmrunner status|events NAME              shows its status, follows its changes
//	vmrunner stop|reset|pause|resume NAME    acts on the VM
//	vmrunner console|vnc|screenshot NAME     connects to the guest's serial port and screen
//	vmrunner view|ssh|port-forward NAME      opens the screen, a log-in, ports of the guest
//	vmrunner migrate NAME --to FILE          moves the guest to a waiting runner (vmrunner receive)
//	vmrunner qmp NAME COMMAND                sends a command of QEMU's protocol
//
// They exit with 0 on success, 2 for wrong usage, 3 if there is no such VM or it is not
// running, and 1 after any other failure.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"vmop/internal/cli"
	"vmop/internal/confine"
	"vmop/internal/loopback"
	"vmop/internal/outbound"
	"vmop/internal/yamlfile"
	"vmop/runner"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/runner/supervisor"
	"vmop/vmtypes/evaluate"
)

func main() {
	confine.Serve(loopback.Deny)              // if this process confines itself
	evaluate.Serve(context.Background(), nil) // if this process evaluates types
	loopback.Serve(func(to netip.AddrPort) bool { return outbound.Rule{}.Check(to) != nil })
	ctx, stop := untilSignal(context.Background())
	root := newRunnerCommand(os.Args[1:]...)
	root.PersistentPreRun = func(*cobra.Command, []string) { hardenProcess() }
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil && !errors.As(err, new(loggedError)) && !errors.As(err, new(cli.ExitError)) {
		fmt.Fprintln(os.Stderr, "vmrunner:", cli.Describe(err))
	}
	os.Exit(exitCode(err))
}

// hardenProcess protects what this process and QEMU create: files and sockets are accessible to
// this user only, and no descriptor that the parent process left open reaches QEMU.
func hardenProcess() {
	unix.Umask(0o077)
	// Before Linux 5.11, CloseRange fails and the descriptors stay open.
	_ = unix.CloseRange(firstInherited, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

// firstInherited is the first descriptor that is not a standard stream.
const firstInherited = 3

// loggedError is an error that is already in the log. Programs read a JSON log and expect all messages in it.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// untilSignal returns a context that is done at the first TERM or INT, or immediately if an earlier runner of
// this VM received such a signal. Further signals have no effect, because the guest is already being shut down.
func untilSignal(parent context.Context) (context.Context, func()) {
	if asked := supervisor.AskedToStop(); asked != 0 {
		ctx, cancel := context.WithCancelCause(parent)
		cancel(cli.SignalError{Signal: asked})
		parent = ctx
	}
	return cli.UntilSignal(parent)
}

// hangUps returns a channel that receives on HUP, the signal to reload the configuration. A signal that arrives
// before the channel is read is kept.
func hangUps() (received <-chan struct{}, stop func()) {
	signals, out := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			select {
			case out <- struct{}{}:
			default: // a signal is already pending
			}
		}
	}()
	return out, func() { signal.Stop(signals); close(signals) }
}

// Exit codes; see the package comment.
const (
	exitFailed = 1
	exitLocked = 3 // run: the VM is already running
	exitAbsent = 3 // the other verbs: there is no such VM, or it is not running
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
	case errors.Is(err, control.ErrNotRunning), errors.Is(err, inventory.ErrUnknown):
		return exitAbsent
	case errors.As(err, &faults), errors.As(err, new(cli.UsageError)):
		return cli.ExitUsage
	}
	return exitFailed
}
