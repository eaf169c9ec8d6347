// Command vmmanager runs the VirtualMachines of a Kubernetes namespace, and shows the VMs of a computer.
//
//	vmmanager [run] [-c FILE]     manages VMs until stopped by a signal
//	vmmanager local               shows the VMs of this computer in a browser
//	vmmanager local link          prints a link to log in there
//	vmmanager local token         prints a token for programs
//	vmmanager devices             offers /dev/kvm and other devices to the pods of a node
//	vmmanager check-config FILE   checks a configuration
//	vmmanager takeover            takes over the VMs of a VM-Operator
//	vmmanager hash-password       prints the hash of a password for a local user
//	vmmanager version             prints the version
//
// Exit codes:
//
//   - 0: a signal (TERM, INT) stopped vmmanager, or the configuration is valid
//   - 1: other failures: the API server is unreachable or lacks VirtualMachines, another manager has become the
//     leader, or a takeover is blocked
//   - 2: wrong usage, the configuration is missing or invalid, or the namespace or API server is not specified
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"vmop/internal/cli"
	"vmop/internal/yamlfile"
	"vmop/manager"
	"vmop/vmtypes/evaluate"
)

// version is set at build time: -ldflags "-X main.version=…".
var version = "devel"

func main() {
	evaluate.Serve(context.Background(), nil) // if this process evaluates types
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(thrift)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := newManagerCommand().ExecuteContext(ctx)
	stop()
	if err != nil && !errors.As(err, new(loggedError)) {
		fmt.Fprintln(os.Stderr, "vmmanager:", cli.Describe(err))
	}
	os.Exit(exitCode(err))
}

// thrift makes the garbage collector run when the heap has grown by half. Most of the heap is the store, which
// rarely changes.
const thrift = 50

// loggedError is an error that has already been logged. Programs that read a JSON log expect all messages in it.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

const exitFailed = 1

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(yamlfile.Faults)), errors.As(err, new(cli.UsageError)),
		errors.Is(err, manager.ErrNoNamespace), errors.Is(err, manager.ErrNoServer):
		return cli.ExitUsage
	}
	return exitFailed
}
