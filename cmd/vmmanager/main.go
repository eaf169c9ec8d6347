// Command vmmanager runs the VirtualMachines of a Kubernetes namespace, and shows the VMs of a
// computer.
//
//	vmmanager [run] [-c FILE]     manages VMs until it is stopped by a signal
//	vmmanager local               shows the VMs of this computer in a browser
//	vmmanager local link          prints a link to log in there
//	vmmanager local token         prints a token for programs
//	vmmanager devices             offers /dev/kvm and others to the pods of a node
//	vmmanager check-config FILE   checks a configuration
//	vmmanager takeover            takes the VMs of a VM-Operator over
//	vmmanager hash-password       prints the hash of a password, for a local user
//	vmmanager version             prints the version
//
// It exits with 0 after a signal (TERM, INT), and for a configuration without faults; with 2
// for wrong usage, a configuration that is missing or has faults, or if no namespace to
// manage or no API server is given; and with 1 for other failures: the API server can't be
// reached or has no VirtualMachines, another manager has become the leader, or something blocks a takeover.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"vmop/cli"
	"vmop/manager"
	"vmop/vmtypes/evaluate"
	"vmop/yamlfile"
)

// version is set when the program is built: -ldflags "-X main.version=…".
var version = "devel"

func main() {
	evaluate.Serve(context.Background(), nil) // if this is such a process
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(thrift)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil && !errors.As(err, new(loggedError)) {
		fmt.Fprintln(os.Stderr, "vmmanager:", describe(err))
	}
	os.Exit(exitCode(err))
}

// thrift makes the garbage collector run when the heap has grown by half: the store is most
// of it, and hardly changes.
const thrift = 50

// loggedError is an error that has been logged: programs that read a log of JSON need
// everything in it.
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

// describe returns the text for people: faults of a file with their lines.
func describe(err error) string {
	var faults yamlfile.Faults
	if !errors.As(err, &faults) {
		return err.Error()
	}
	count := "1 fault"
	if len(faults) != 1 {
		count = fmt.Sprintf("%d faults", len(faults))
	}
	return count + " in the configuration\n" + strings.TrimSuffix(faults.Excerpts(), "\n")
}
