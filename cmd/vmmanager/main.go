// Command vmmanager makes the VirtualMachines of a Kubernetes namespace run.
//
//	vmmanager [run] [-c FILE]     manages VMs until it is told to stop
//	vmmanager check-config FILE   says what is wrong with a configuration
//	vmmanager version             prints the version
//
// It exits with 0 when it was told to stop (TERM, INT), and when a configuration is
// without fault; with 2 when it was called wrongly, the configuration is missing or has
// faults, or nothing says which namespace to manage or where the API server is; and
// with 1 when something else went wrong: the API server can't be reached, doesn't know
// VirtualMachines, or another manager leads now.
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

// thrift makes the garbage collector run when a half more than what is live has been
// allocated: the caches are most of the memory, and hardly change.
const thrift = 50

// loggedError is an error that the log has told already: a log of JSON is read
// by programs, which want everything in it.
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
